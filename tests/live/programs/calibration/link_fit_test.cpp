#include "live/programs/calibration/link_fit.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

constexpr double kLatency_s = 50e-6, kBandwidth = 2e9;

CollectiveTime time_of(double rounds, double bytes) {
  return {rounds, bytes, rounds * kLatency_s + bytes / kBandwidth};
}

TEST(LinkFit, LatencyAndBandwidthOfExactTimesAreFound) {
  const auto links = fit_links({time_of(2, 1e3), time_of(2, 1e6), time_of(6, 3e7), time_of(3, 4)});
  ASSERT_TRUE(links);
  EXPECT_NEAR(links->latency_s, kLatency_s, 1e-9);
  EXPECT_NEAR(links->bandwidth, kBandwidth, 1e3);
  EXPECT_NEAR(links->error, 0, 1e-9);
}

TEST(LinkFit, OneSizeAloneGivesItsTimeToTheLatency) {
  const auto links = fit_links({time_of(2, 1e3), time_of(2, 1e3)});
  ASSERT_TRUE(links);
  EXPECT_NEAR(2 * links->latency_s, time_of(2, 1e3).seconds, 1e-8);
}

TEST(LinkFit, NothingIsNegative) {
  const auto falling = fit_links({{2, 1e3, 3e-3}, {2, 1e6, 1e-3}});
  ASSERT_TRUE(falling);
  EXPECT_GT(falling->latency_s, 0);
  EXPECT_GT(falling->bandwidth, 0);
  const auto steep = fit_links({{6, 1e3, 1e-6}, {2, 1e6, 1e-2}});
  ASSERT_TRUE(steep);
  EXPECT_GE(steep->latency_s, 0);
  EXPECT_GT(steep->error, 0.1);
}

TEST(LinkFit, WithoutATimeThereAreNoLinks) {
  EXPECT_FALSE(fit_links({}));
  EXPECT_FALSE(fit_links({{2, 1e3, 0}}));
}

}  // namespace
}  // namespace orrery::live

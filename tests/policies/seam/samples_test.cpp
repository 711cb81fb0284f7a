#include "policies/seam/samples.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

RankSample timed(std::uint32_t rank, double seconds) {
  RankSample sample;
  sample.rank = {rank};
  sample.micro_batch_time = {seconds, 5, Origin::measured};
  return sample;
}

TEST(Summary, IsTheMedianAndTheSlowestSlowestFirst) {
  const std::vector<RankSample> ranks{timed(0, 1.0), timed(1, 1.1), timed(2, 3.0), timed(3, 0.9),
                                      timed(4, 2.0)};
  std::vector<RankSample> kept;
  const RankSummary summary = summarize(ranks, 2, kept);
  EXPECT_EQ(summary.ranks, 5u);
  EXPECT_DOUBLE_EQ(summary.micro_batch_time, 1.1);
  EXPECT_EQ(summary.age, 5);
  ASSERT_EQ(summary.latest.size(), 2u);
  EXPECT_EQ(summary.latest[0].rank.value, 2u);
  EXPECT_EQ(summary.latest[1].rank.value, 4u);
  EXPECT_NEAR(summary.deviation, 1.4826 * (0.2 / 1.1), 1e-12);
}

TEST(Summary, PassesOverWhatIsMissing) {
  const std::vector<RankSample> ranks{{}, timed(1, 1.0), {}};
  std::vector<RankSample> kept;
  const RankSummary summary = summarize(ranks, 9, kept);
  EXPECT_EQ(summary.ranks, 3u);
  EXPECT_EQ(summary.latest.size(), 1u);
  EXPECT_DOUBLE_EQ(summary.micro_batch_time, 1.0);
}

TEST(Summary, OfNothingIsUnknown) {
  std::vector<RankSample> kept;
  const RankSummary summary = summarize({}, 3, kept);
  EXPECT_EQ(summary.micro_batch_time, 0);
  EXPECT_TRUE(summary.latest.empty());
}

}  // namespace
}  // namespace orrery

#include "policies/run/detached_samples.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(DetachedSamples, UnreadTelemetryAddsUpAndAges) {
  const auto rank = [](std::uint32_t number, double time) {
    RankSample sample;
    sample.rank = {number};
    sample.micro_batch_time = {time, 5, Origin::measured};
    return sample;
  };
  DetachedSamples samples;
  SamplesCopy first{.at = 100, .jobs = {}}, second{.at = 130, .jobs = {}};
  first.jobs[{0}].ranks = {rank(0, 1.0), rank(1, 2.0)};
  first.jobs[{0}].ranks[1].wait_time = {0.5, 7, Origin::measured};
  first.jobs[{0}].collectives.resize(1);
  second.jobs[{0}].ranks = {rank(1, 3.0)};
  second.jobs[{0}].collectives.resize(2);
  samples.add_observation(first);
  samples.add_observation(second);
  const auto ranks = samples.ranks({0});
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0].micro_batch_time.value, 1.0);
  EXPECT_EQ(ranks[0].micro_batch_time.age, 35);
  EXPECT_EQ(ranks[1].micro_batch_time.value, 3.0);
  EXPECT_EQ(ranks[1].micro_batch_time.age, 5);
  EXPECT_EQ(ranks[1].wait_time.value, 0.5);
  EXPECT_EQ(ranks[1].wait_time.age, 37);
  EXPECT_EQ(samples.collectives({0}).size(), 3u);
  EXPECT_EQ(samples.summary({0}, 1).latest[0].rank, RankId{1});
  samples.add_observation({.at = 140, .jobs = {}});  // the earlier ones were read
  EXPECT_TRUE(samples.ranks({0}).empty());
}

}  // namespace
}  // namespace orrery

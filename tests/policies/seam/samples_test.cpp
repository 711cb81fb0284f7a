#include "policies/seam/samples.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

RankSample timed(std::uint32_t rank, double seconds) {
  RankSample sample;
  sample.rank = {rank};
  sample.micro_batch_time = {seconds, 5, Origin::measured};
  return sample;
}

TEST(Summary, IsTheMedianAndTheSlowestSlowestFirst) {
  toy::HandMade source;
  source.of_ranks = {timed(0, 1.0), timed(1, 1.1), timed(2, 3.0), timed(3, 0.9), timed(4, 2.0)};
  std::vector<RankSample> kept;
  const RankSummary summary = summarize(source, {0}, 2, kept);
  EXPECT_EQ(summary.ranks, 5u);
  EXPECT_DOUBLE_EQ(summary.micro_batch_time, 1.1);
  EXPECT_EQ(summary.age, 5);
  ASSERT_EQ(summary.latest.size(), 2u);
  EXPECT_EQ(summary.latest[0].rank.value, 2u);
  EXPECT_EQ(summary.latest[1].rank.value, 4u);
  EXPECT_NEAR(summary.deviation, 1.4826 * (0.2 / 1.1), 1e-12);
}

TEST(Summary, OfManyRanksIsTheSameMedian) {
  for (const double slow : {1.0, 1.5, 1e6}) {
    toy::HandMade source;
    std::vector<double> times;
    for (std::uint32_t rank = 0; rank < 10'001; ++rank) {
      times.push_back(rank == 77 ? slow * 2 : 1 + 0.01 * ((rank * 7919) % 10'001) / 10'001);
      source.of_ranks.push_back(timed(rank, times.back()));
    }
    std::vector<RankSample> kept;
    const RankSummary summary = summarize(source, {0}, 1, kept);
    std::sort(times.begin(), times.end());
    EXPECT_EQ(summary.micro_batch_time, times[5000]);
    EXPECT_EQ(summary.latest[0].rank.value, 77u);
    for (double& time : times) time = std::abs(time / summary.micro_batch_time - 1);
    std::sort(times.begin(), times.end());
    EXPECT_EQ(summary.deviation, 1.4826 * times[5000]);
  }
}

TEST(Summary, OfManyRanksCountsTheKnownOnes) {
  toy::HandMade source;
  std::vector<double> times;
  for (std::uint32_t rank = 0; rank < 1000; ++rank) {
    RankSample unknown;
    unknown.job = {0};
    unknown.rank = {rank};
    source.of_ranks.push_back(rank % 3 == 0 ? unknown
                                            : timed(rank, 1 + 0.001 * (rank * 7919 % 1000)));
    if (rank % 3 != 0) times.push_back(source.of_ranks.back().micro_batch_time.value);
  }
  std::vector<RankSample> kept;
  const RankSummary summary = summarize(source, {0}, 1, kept);
  std::sort(times.begin(), times.end());
  EXPECT_EQ(summary.ranks, 1000u);
  EXPECT_EQ(summary.micro_batch_time, times[(times.size() - 1) / 2]);
  EXPECT_EQ(summary.latest[0].micro_batch_time.value, times.back());
}

TEST(Summary, PassesOverWhatIsMissing) {
  toy::HandMade source;
  source.of_ranks = {{}, timed(1, 1.0), {}};
  std::vector<RankSample> kept;
  const RankSummary summary = summarize(source, {0}, 9, kept);
  EXPECT_EQ(summary.ranks, 3u);
  EXPECT_EQ(summary.latest.size(), 1u);
  EXPECT_DOUBLE_EQ(summary.micro_batch_time, 1.0);
}

TEST(Summary, OfNothingIsUnknown) {
  std::vector<RankSample> kept;
  NoSamples source;
  const RankSummary summary = summarize(source, {0}, 3, kept);
  EXPECT_EQ(summary.micro_batch_time, 0);
  EXPECT_TRUE(summary.latest.empty());
}

}  // namespace
}  // namespace orrery

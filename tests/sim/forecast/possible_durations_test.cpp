// One possible truth about durations: its mean is the model's distribution, jobs share what the
// model does not know, and longer durations alone are left for a job that runs.
#include "sim/forecast/possible_durations.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/forecast/weighted_durations.hpp"

namespace orrery::sim {
namespace {

PossibleDurations possible(int draw, int draws = 1) {
  const double which = (draw + 0.5) / draws;
  return {which, Rng(7).split_stream(std::to_string(draw))};
}

DurationModel model_of(int count, double spread, std::uint64_t seed = 1) {
  DurationModel model;
  Rng rng(seed);
  for (int i = 0; i < count; ++i) {
    model.record_end({.gpus = 1}, 600 * std::exp(spread * rng.normal()));
  }
  return model;
}

/// Relative standard deviation of the sum of the durations of 400 jobs over the draws.
double spread_of_sums(const DurationModel& model) {
  const DurationModel::JobKinds kinds = model.kinds_for({.gpus = 1});
  Rng rng(3);
  double sum = 0, squares = 0;
  constexpr int kDraws = 300;
  for (int draw = 0; draw < kDraws; ++draw) {
    PossibleDurations drawn = possible(draw, kDraws);
    double all_s = 0;
    for (int job = 0; job < 400; ++job) all_s += drawn.draw_duration(kinds, 0, rng.uniform());
    sum += all_s;
    squares += all_s * all_s;
  }
  const double mean = sum / kDraws;
  return std::sqrt(squares / kDraws - mean * mean) / mean;
}

TEST(PossibleDurations, TheirMeanIsTheDistributionOfTheModel) {
  const DurationModel model = model_of(30, 1);
  const DurationModel::JobKinds kinds = model.kinds_for({.gpus = 1});
  const DurationDistribution of = model.of({.gpus = 1}, 0);
  Rng rng(5);
  constexpr int kDraws = 4000;
  for (const double share : {0.1, 0.5, 0.9}) {
    int below = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      below += possible(draw, kDraws).draw_duration(kinds, 0, rng.uniform()) <= of.quantile(share);
    }
    EXPECT_NEAR(below / double{kDraws}, share, 0.05) << share;
  }
}

/// 400 jobs alone would spread by a twentieth of the spread of one; few known durations leave more.
TEST(PossibleDurations, TheSumOfManyJobsIsAsUncertainAsTheModel) {
  const double few = spread_of_sums(model_of(8, 0.5)), many = spread_of_sums(model_of(128, 0.5));
  EXPECT_GT(few, 0.15);
  EXPECT_LT(many, few / 2);
  EXPECT_GT(many, 0.5 / std::sqrt(128.0) / 2);
}

TEST(PossibleDurations, OnlyLongerDurationsAreLeftForAJobThatRuns) {
  const DurationModel model = model_of(40, 1);
  const DurationModel::JobKinds kinds = model.kinds_for({.gpus = 1});
  PossibleDurations drawn = possible(1);
  for (double u = 0; u < 1; u += 0.05) {
    EXPECT_GE(drawn.draw_duration(kinds, 900, u), 900);
    EXPECT_GE(drawn.draw_duration(kinds, 1e8, u), 1e8);
  }
  EXPECT_LE(drawn.draw_duration(kinds, 0, 0.2), drawn.draw_duration(kinds, 900, 0.2));
}

TEST(PossibleDurations, BeforeAnyEndAllJobsOfADrawShareTheUnknown) {
  const DurationModel model;
  const DurationModel::JobKinds first = model.kinds_for({.gpus = 1});
  const DurationModel::JobKinds other = model.kinds_for({.gpus = 8, .user = "b"});
  double least = 1e12, most = 0;
  for (int draw = 0; draw < 50; ++draw) {
    PossibleDurations drawn = possible(draw);
    const double median_s = drawn.draw_duration(first, 0, 0.5);
    EXPECT_EQ(median_s, drawn.draw_duration(other, 0, 0.5));
    least = std::min(least, median_s);
    most = std::max(most, median_s);
  }
  EXPECT_LT(least, 1800);
  EXPECT_GT(most, 7200);
  const DurationModel::JobKinds limited = model.kinds_for({.gpus = 1, .limit_s = 600});
  EXPECT_LE(possible(2).draw_duration(limited, 0, 0.999), 600);
}

TEST(WeightedDurations, RunningJobsGiveTheirWeightToLongerDurations) {
  WeightedDurations weighted{{60, 1}, {10, 1}};
  spread_running({{30, 2}}, weighted);
  EXPECT_EQ(weighted, (WeightedDurations{{10, 1}, {60, 3}}));
  WeightedDurations short_ones{{10, 1}};
  spread_running({{30, 1}}, short_ones);
  ASSERT_EQ(short_ones.size(), 2u);
  EXPECT_EQ(short_ones[1].first, 60);
}

TEST(WeightedDurations, UnknownDurationsSpreadAsWidelyAsTheError) {
  EXPECT_EQ(unknown_duration(100, 1, 0.5), 100);
  double sum = 0;
  constexpr int kParts = 10000;
  for (int i = 0; i < kParts; ++i) {
    sum += std::abs(std::log(unknown_duration(100, 0.7, (i + 0.5) / kParts) / 100));
  }
  EXPECT_NEAR(sum / kParts, 0.7, 0.01);
  EXPECT_EQ(unknown_duration(100, 50, 0.999), 1e9);
}

}  // namespace
}  // namespace orrery::sim

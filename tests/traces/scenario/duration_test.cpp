// Durations as distributions: their quantiles, and which descriptions are refused.
#include "traces/scenario/duration.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "core/schema/yaml_loader.hpp"

namespace orrery {
namespace {

DurationDistribution read(const std::string& yaml) {
  DurationDistribution of;
  load_yaml(yaml, "d.yaml", of);
  return of;
}

TEST(Duration, NineOfTenLieBelowP90AndHalfBelowTheMedian) {
  const DurationDistribution of = read("{median: 4 min, p90: 40 min}");
  EXPECT_NEAR(log_deviation(of), 1.797, 1e-3);
  Rng rng(3);
  const int count = 20'000;
  int half = 0, most = 0;
  for (int i = 0; i < count; ++i) {
    const Nanos drawn = draw_duration(of, rng);
    half += drawn <= of.median() ? 1 : 0;
    most += drawn <= of.p90() ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(half) / count, 0.5, 0.015);
  EXPECT_NEAR(static_cast<double>(most) / count, 0.9, 0.01);
}

TEST(Duration, ObservedTimesAreDrawnEquallyOftenAndAFixedOneDrawsNothing) {
  const DurationDistribution of = read("{values: [1 s, 2 s, 60 s]}");
  Rng rng(3);
  std::vector<int> counts(61);
  for (int i = 0; i < 3000; ++i) {
    ++counts.at(static_cast<std::size_t>(draw_duration(of, rng) / kNanosPerSecond));
  }
  for (const std::size_t each : {1, 2, 60}) EXPECT_NEAR(counts[each], 1000, 120);
  const std::uint64_t state = rng.state();
  EXPECT_EQ(draw_duration(read("{fixed: 0 s}"), rng), 0);
  EXPECT_EQ(rng.state(), state);
}

TEST(Duration, OneCompleteFormIsExpected) {
  EXPECT_EQ(duration_problem(read("{median: 1 s, sigma: 0}")), "");
  EXPECT_NE(duration_problem(read("{}")), "");
  EXPECT_NE(duration_problem(read("{fixed: 1 s, median: 1 s, sigma: 1}")), "");
  EXPECT_NE(duration_problem(read("{fixed: 1 s, sigma: 1}")), "");
  EXPECT_NE(duration_problem(read("{median: 1 s}")), "");
  EXPECT_NE(duration_problem(read("{median: 1 s, sigma: 1, p90: 2 s}")), "");
  EXPECT_NE(duration_problem(read("{median: 2 s, p90: 1 s}")), "");
}

}  // namespace
}  // namespace orrery

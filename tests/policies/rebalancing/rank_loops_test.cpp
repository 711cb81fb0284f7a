#include "policies/rebalancing/rank_loops.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery {
namespace {

constexpr std::size_t kRanks = 67;  // more than whole vectors
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

TEST(RankLoops, NumbersCountUpOnlyWithoutAGapFromZero) {
  std::vector<std::uint32_t> numbers(kRanks);
  for (std::uint32_t i = 0; i < kRanks; ++i) numbers[i] = i;
  EXPECT_TRUE(counts_up(numbers));
  EXPECT_TRUE(counts_up({}));
  numbers[66] = 67;
  EXPECT_FALSE(counts_up(numbers));
}

TEST(RankLoops, OneOtherStepIsFound) {
  std::vector<Step> steps(kRanks, 9);
  EXPECT_TRUE(are_equal(steps));
  EXPECT_TRUE(are_equal({}));
  steps[40] = 8;
  EXPECT_FALSE(are_equal(steps));
}

TEST(RankLoops, ARankHasNewsInAnotherStepOrAfterAMicroBatch) {
  std::vector<Step> steps(kRanks, 3), seen(kRanks, 3);
  std::vector<double> done(kRanks, 1.5), next(kRanks, 2);
  steps[1] = 4;
  done[2] = 2;
  done[3] = 1.99995;  // differs by less than the rounding
  done[4] = kUnknown;
  steps[66] = 2;
  std::vector<std::uint8_t> marks(kRanks, 9);
  mark_news({steps, done, seen.data(), next.data()}, 1e-4, marks);
  std::vector<std::uint32_t> marked{5};
  find_marked(marks, marked);
  EXPECT_EQ(marked, (std::vector<std::uint32_t>{1, 2, 3, 66}));
}

TEST(RankLoops, AChangeBeyondTheLimitOrAnUnsettledRankIsMarked) {
  std::vector<double> a(kRanks, 0.1), b(kRanks, -0.1), c(kRanks, 0);
  std::vector<Step> settled(kRanks, 5);
  a[7] = -0.3, b[8] = 0.3, c[9] = 0.3;
  settled[65] = 4;
  std::vector<std::uint8_t> marks(kRanks, 7);
  mark_unsettled(settled.data(), 5, marks);
  for (const std::vector<double>* each : {&a, &b, &c}) mark_changes(*each, 0.04, marks);
  std::vector<std::uint32_t> marked;
  find_marked(marks, marked);
  EXPECT_EQ(marked, (std::vector<std::uint32_t>{7, 8, 9, 65}));
}

TEST(RankLoops, TheFirstOfTheLargestValuesOfEachRunIsFound) {
  Rng rng(4);
  for (const std::size_t run : {1u, 3u, 8u, 17u, 40u, 100u}) {
    std::vector<double> values(kRanks);
    for (double& value : values) {
      value = rng.below(5) == 0 ? kUnknown : static_cast<double>(rng.below(6)) - 9;
    }
    std::fill(values.begin() + 40, values.begin() + 60, kUnknown);
    std::vector<std::uint32_t> found{9}, expected;
    for (std::size_t begin = 0; begin < kRanks; begin += run) {
      std::size_t largest = begin;
      for (std::size_t i = begin; i < std::min(begin + run, kRanks); ++i) {
        const bool is_first = std::isnan(values[largest]) && !std::isnan(values[i]);
        if (is_first || values[i] > values[largest]) largest = i;
      }
      expected.push_back(static_cast<std::uint32_t>(largest));
    }
    find_largest(values, run, found);
    EXPECT_EQ(found, expected) << run;
  }
}

TEST(RankLoops, ASlopeIsSteepIfItLeadsFarAndIsReal) {
  std::vector<double> times(kRanks, 0), slopes(kRanks, 0.001), variances(kRanks, 1e-8);
  std::vector<Step> steps(kRanks, 10);
  const auto is_steep = [&](Step target) {
    return is_any_steep({times, slopes.data(), variances.data(), steps.data()}, target, 0.02, 3);
  };
  EXPECT_FALSE(is_steep(20)) << "0.01 in ten steps";
  slopes[66] = -0.003;
  EXPECT_TRUE(is_steep(20));
  EXPECT_FALSE(is_steep(15)) << "0.015 in five steps";
  EXPECT_FALSE(is_steep(5)) << "a step before all";
  variances[66] = 2e-6;  // 2.1 deviations
  EXPECT_FALSE(is_steep(20));
  variances[66] = -1e-20;  // rounding
  EXPECT_TRUE(is_steep(20));
  times[66] = kUnknown;
  EXPECT_FALSE(is_steep(20));
}

TEST(RankLoops, TheLeastNumberIsFound) {
  std::vector<std::uint64_t> numbers(kRanks, 12);
  numbers[65] = 3;
  EXPECT_EQ(least_of(numbers), 3u);
  EXPECT_EQ(least_of({}), ~std::uint64_t{0});
}

TEST(RankLoops, OnlyValuesWithinTheBoundsAreAdded) {
  std::vector<double> values(kRanks, 0.5), sums(kRanks, 1), counts(kRanks, 2);
  values[0] = -0.1, values[1] = 1.6, values[2] = kUnknown, values[3] = 1.5;
  add_usable(values, 0, 1.5, sums.data(), counts.data());
  EXPECT_EQ(std::vector<double>(sums.begin(), sums.begin() + 5),
            (std::vector<double>{1, 1, 1, 2.5, 1.5}));
  EXPECT_EQ(std::vector<double>(counts.begin(), counts.begin() + 5),
            (std::vector<double>{2, 2, 2, 3, 3}));
  EXPECT_EQ(sums[66], 1.5);
}

TEST(RankLoops, ExtrapolationHasTheBitsOfOneRankAfterTheOther) {
  Rng rng(3);
  std::vector<double> levels(kRanks), slopes(kRanks), out(kRanks);
  for (std::size_t i = 0; i < kRanks; ++i) levels[i] = rng.normal(), slopes[i] = rng.normal();
  levels[11] = kUnknown;
  extrapolate(levels, slopes.data(), 2.94, out);
  for (std::size_t i = 0; i < kRanks; ++i) {
    if (i == 11) continue;
    const volatile double product = 2.94 * slopes[i];  // rounded on its own
    EXPECT_EQ(out[i], levels[i] + product) << i;
  }
  EXPECT_TRUE(std::isnan(out[11]));
}

}  // namespace
}  // namespace orrery

#include "policies/rebalancing/rank_loops.hpp"

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
  std::vector<std::uint8_t> marks(kRanks);
  mark_changes({{a.data(), b.data(), c.data()}, {0.04, 0.04, 0.04}}, settled.data(), 5, marks);
  std::vector<std::uint32_t> marked;
  find_marked(marks, marked);
  EXPECT_EQ(marked, (std::vector<std::uint32_t>{7, 8, 9, 65}));
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

#include "policies/seam/lower_median.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery {
namespace {

double sorted_median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

TEST(LowerMedian, OfFewValues) {
  EXPECT_EQ(lower_median({}), 0);
  EXPECT_EQ(lower_median(std::vector{7.0}), 7);
  EXPECT_EQ(lower_median(std::vector{4.0, 1.0, 3.0, 2.0}), 2);
}

TEST(LowerMedian, EqualsThatOfTheSortedValuesForAnySizeAndOrder) {
  Rng rng(7);
  for (const std::size_t size : {1u, 2u, 255u, 256u, 257u, 512u, 2047u, 2048u, 4095u, 70'001u}) {
    std::vector<double> noise, few, rising, outliers;
    for (std::size_t i = 0; i < size; ++i) {
      noise.push_back(1 + 0.01 * rng.normal());
      few.push_back(static_cast<double>(rng.below(3)));
      rising.push_back(static_cast<double>(i));
      outliers.push_back(i % 4 == 0 ? 1e12 * rng.normal() : 1);
    }
    for (const std::vector<double>& values : {noise, few, rising, outliers}) {
      EXPECT_EQ(lower_median(values), sorted_median(values)) << size;
    }
  }
}

/// Returns values with noise around `typical`; of kind 1 few different values, of kind 2 equal
/// values, of kind 3 values with outliers.
std::vector<double> values_of(Rng& rng, std::size_t size, std::uint64_t kind, double typical) {
  std::vector<double> values(size, typical);
  for (double& value : values) {
    if (kind == 0) value *= 1 + 0.01 * rng.normal();
    if (kind == 1) value += static_cast<double>(rng.below(4));
    if (kind == 3 && rng.below(3) == 0) value = 1e9 * rng.normal();
  }
  return values;
}

TEST(LowerMedian, AGuessNeverChangesTheMedian) {
  Rng rng(11);
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 400; ++i) {
    const std::size_t size = i % 8 == 0 ? 4000 + rng.below(6000) : 250 + rng.below(400);
    const std::vector<double> values = values_of(rng, size, rng.below(4), 2);
    const double median = sorted_median(values), near = 0.02 * rng.uniform();
    const double above = std::nextafter(median, kInfinite), other = values[rng.below(size)];
    for (MedianGuess guess : {MedianGuess{0, 0}, MedianGuess{median - near, median + near},
                              MedianGuess{median, above}, MedianGuess{median - near, median},
                              MedianGuess{above, above + near}, MedianGuess{median, median},
                              MedianGuess{other, median}, MedianGuess{median, other},
                              MedianGuess{-1e300, 1e300}, MedianGuess{-kInfinite, kInfinite},
                              MedianGuess{std::nan(""), median}, MedianGuess{9e9, 1e10}}) {
      ASSERT_EQ(lower_median(values, guess), median) << size << ", number " << i;
      ASSERT_EQ(lower_median(values, guess), median) << size << ", number " << i << ", again";
    }
  }
}

TEST(LowerMedian, AGuessFollowsAMedianThatMoves) {
  Rng rng(12);
  MedianGuess guess;
  std::size_t inside = 0;
  for (int i = 0; i < 100; ++i) {
    const std::vector<double> values = values_of(rng, 512, 0, 1 + 1e-5 * i);
    const double median = sorted_median(values);
    inside += guess.low <= median && median < guess.high ? 1 : 0;
    ASSERT_EQ(lower_median(values, guess), median);
    EXPECT_LE(guess.low, median);
    EXPECT_GT(guess.high, median);
    const auto is_near = [&](double value) { return value >= guess.low && value < guess.high; };
    EXPECT_LT(std::count_if(values.begin(), values.end(), is_near), 256) << "a part of the values";
  }
  EXPECT_GT(inside, 80u);
}

TEST(LowerMedian, OfDrawnValuesFarFromTheOthers) {
  // Every third value is drawn first; the median is none of them.
  std::vector<double> values;
  for (std::size_t i = 0; i < 300; ++i) values.push_back(i % 3 == 0 ? 100 : 1);
  EXPECT_EQ(lower_median(values), 1);
  for (double& value : values) value = -value;
  EXPECT_EQ(lower_median(values), -1);
}

}  // namespace
}  // namespace orrery

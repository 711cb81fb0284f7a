#include "policies/seam/lower_median.hpp"

#include <algorithm>
#include <cstddef>
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

#include "sim/training/sample_noise.hpp"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "sim/training/rank_noise.hpp"

namespace orrery::sim {
namespace {

TEST(SampleNoise, AColumnHasTheNumbersOfItsPlaces) {
  std::vector<double> all(1003);
  fill_normals(7, 1'234'567, 3, 9, all);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_NEAR(all[i], normal_at(7, 1'234'567, 3 + i * 9), 1e-13) << i;
    sum += all[i], squares += all[i] * all[i];
  }
  EXPECT_NEAR(sum / 1003, 0, 0.1);
  EXPECT_NEAR(squares / 1003, 1, 0.15);
  std::vector<double> few(3);
  fill_normals(7, 1'234'567, 3 + 500 * 9, 9, few);
  EXPECT_EQ(few[2], all[502]) << "the same bits wherever a column begins";
}

TEST(SampleNoise, ErrorsAreRelativeAndMissingValuesStayMissing) {
  std::vector<double> normals(70), values(70, 200);
  fill_normals(7, 99, 3, 9, normals);
  values[40] = std::nan("");
  add_errors(7, 99, 3, 9, 0.01, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i == 40) continue;
    EXPECT_EQ(values[i], 200 * (1 + 0.01 * normals[i])) << i;
  }
  EXPECT_TRUE(std::isnan(values[40]));
}

}  // namespace
}  // namespace orrery::sim

#include "policies/checkpointing/interval.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(Interval, YoungAndDalyAreTheirFormulas) {
  EXPECT_DOUBLE_EQ(young_interval(50, 10'000), 1000);
  EXPECT_NEAR(daly_interval(50, 10'000), 1000 * (1 + 0.05 / 3 + 0.0025 / 9) - 50, 1e-9);
  EXPECT_EQ(daly_interval(100, 40), 40) << "a checkpoint that costs more than twice that";
}

TEST(Interval, DalysIsWhereTheExpectedGoodputIsHighest) {
  for (const double cost : {1.0, 10.0, 60.0}) {
    for (const double mtbf : {600.0, 3600.0, 86400.0}) {
      const double best = daly_interval(cost, mtbf);
      const double top = expected_goodput(best, cost, 30, mtbf);
      double highest = 0;
      for (double interval = best / 4; interval < 4 * best; interval *= 1.002) {
        highest = std::max(highest, expected_goodput(interval, cost, 30, mtbf));
      }
      EXPECT_NEAR(top / highest, 1, 1e-4) << cost << " " << mtbf;
    }
  }
}

TEST(Interval, TheFirstOrderIsThatOfTheWholeWhereLittleFails) {
  EXPECT_NEAR(expected_ettr(600, 5, 60, 1e6), expected_goodput(600, 5, 60, 1e6), 1e-4);
  EXPECT_GT(expected_goodput(600, 5, 60, 600), expected_ettr(600, 5, 60, 600)) << "there it is off";
}

}  // namespace
}  // namespace orrery

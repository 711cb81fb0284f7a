#include "tests/bench/own_clause.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace orrery {
namespace {

/// Families whose errors five runs halve, with 80% of their runs inside the intervals.
std::vector<FamilyResult> kept_families(std::size_t count) {
  std::vector<FamilyResult> families;
  for (std::size_t i = 0; i < count; ++i) {
    families.push_back({.name = "family" + std::to_string(i),
                        .rows = 8,
                        .before = 0.3,
                        .after = 0.1,
                        .covered = 0.8});
  }
  return families;
}

TEST(OwnClause, ResultsAsPromisedBreakNothing) {
  auto families = kept_families(6);
  families[0].after = 0.15;  // half exactly
  families[1].before = 0.10, families[1].after = 0.109;
  for (const std::size_t runs : {1, 3, 5, 10}) EXPECT_TRUE(broken_promises(runs, families).empty());
}

TEST(OwnClause, AFamilyThatFiveRunsDoNotHalveIsNamed) {
  auto families = kept_families(6);
  families[2].after = 0.16;
  EXPECT_TRUE(broken_promises(3, families).empty()) << "the promise is about five runs";
  const std::vector<std::string> broken = broken_promises(5, families);
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_NE(broken[0].find("family2: expected an error of at most 15.0% with 5 runs, found 16.0%"),
            std::string::npos)
      << broken[0];
  families[2].least = 0.14;
  EXPECT_EQ(broken_promises(5, families).size(), 1u) << "a better predictor would halve it";
  families[2].least = 0.151;
  EXPECT_TRUE(broken_promises(5, families).empty()) << "no predictor from these columns halves it";
}

TEST(OwnClause, ASmallErrorThatGrowsByMoreThanAPointIsNamed) {
  auto families = kept_families(6);
  families[4].before = 0.10, families[4].after = 0.115, families[4].least = 0.2;
  ASSERT_EQ(broken_promises(5, families).size(), 1u);
  EXPECT_NE(broken_promises(5, families)[0].find("family4"), std::string::npos);
}

TEST(OwnClause, IntervalsTooNarrowOrTooWideAreNamed) {
  for (const double covered : {0.69, 0.91}) {
    auto families = kept_families(5);
    for (FamilyResult& each : families) each.covered = covered;
    for (const std::size_t runs : {1, 3, 5, 10}) {
      EXPECT_EQ(broken_promises(runs, families).size(), 1u) << covered << " " << runs;
    }
    families.pop_back();
    EXPECT_TRUE(broken_promises(1, families).empty()) << "four families tell too little";
  }
}

TEST(OwnClause, NoPredictionIsBetterThanTheLeastErrors) {
  const std::vector<double> times{std::log(8.2), std::log(7.1), std::log(7.1), std::log(4.31)};
  const std::vector<double> bounds = least_errors(times);
  ASSERT_EQ(bounds.size(), 4u);
  EXPECT_EQ(bounds[0], 0);
  EXPECT_EQ(bounds[1], 0) << "two runs are equal";
  EXPECT_NEAR(bounds[2], (8.2 - 7.1) / (8.2 + 7.1), 1e-12);
  EXPECT_NEAR(bounds[3], (8.2 - 4.31) / (8.2 + 4.31), 1e-12);
  EXPECT_EQ(least_errors({3.0}), std::vector<double>{0});
  EXPECT_TRUE(least_errors({}).empty());
}

}  // namespace
}  // namespace orrery

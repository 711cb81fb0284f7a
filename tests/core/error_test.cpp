#include "core/error.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace orrery {
namespace {

const std::vector<std::string> kNames = {"ranks", "nodes", "seed", "late_threshold"};

TEST(Error, KindIsTheExitCode) {
  EXPECT_EQ(static_cast<int>(ErrorKind::goal_missed), 1);
  EXPECT_EQ(static_cast<int>(ErrorKind::usage), 2);
  EXPECT_EQ(static_cast<int>(ErrorKind::bad_input), 3);
  EXPECT_EQ(static_cast<int>(ErrorKind::environment), 4);
  EXPECT_EQ(static_cast<int>(ErrorKind::internal), 5);
}

TEST(Error, WithoutPlaceRendersTheMessage) {
  const Error error(ErrorKind::usage, "no such command");
  EXPECT_STREQ(error.what(), "error: no such command");
  EXPECT_EQ(error.message(), "no such command");
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_FALSE(error.source_place());
}

TEST(Error, WithPlacePointsAtTheColumn) {
  const Error error(SourcePlace{"a.yaml", 3, 5, "    rnks: 4"}, "unknown key 'rnks'");
  EXPECT_STREQ(error.what(),
               "a.yaml:3:5: error: unknown key 'rnks'\n"
               "      rnks: 4\n"
               "      ^");
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
}

TEST(Error, CaretStandsBelowTabs) {
  const Error error(SourcePlace{"a.yaml", 1, 3, "\t\tx"}, "tab");
  EXPECT_STREQ(error.what(), "a.yaml:1:3: error: tab\n  \t\tx\n  \t\t^");
}

TEST(Error, APlaceBehindTheLineHasNoCaret) {
  const Error error(SourcePlace{"a.yaml", 1, 9, "ab"}, "ends here");
  EXPECT_STREQ(error.what(), "a.yaml:1:9: error: ends here\n  ab");
}

TEST(Error, APlaceAtTheEndOfTheLineHasOne) {
  const Error error(SourcePlace{"a.yaml", 1, 3, "ab"}, "ends here");
  EXPECT_STREQ(error.what(), "a.yaml:1:3: error: ends here\n  ab\n    ^");
}

TEST(NearestName, FindsSlips) {
  EXPECT_EQ(nearest_name("rnks", kNames), "ranks");
  EXPECT_EQ(nearest_name("late_treshold", kNames), "late_threshold");
  EXPECT_EQ(nearest_name("ranks", kNames), "ranks");
}

TEST(Error, AQuotedLineCannotSteerTheTerminal) {
  const Error error(SourcePlace{"a", 1, 2, "\x1b[2J\tx\x7f"}, "no");
  EXPECT_STREQ(error.what(), "a:1:2: error: no\n  ?[2J\tx?\n   ^");
}

TEST(NearestName, DoesNotGuessWildly) {
  EXPECT_EQ(nearest_name("temperature", kNames), "");
  EXPECT_EQ(nearest_name("x", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'r'), kNames), "");
}

TEST(NearestName, TakesTheNearestOfSeveral) {
  const std::vector<std::string> names = {"node_x", "nodes", "node"};
  EXPECT_EQ(nearest_name("nodess", names), "nodes");
}

TEST(DidYouMean, IsAnEndingOrNothing) {
  EXPECT_EQ(did_you_mean("sed", kNames), "; did you mean 'seed'?");
  EXPECT_EQ(did_you_mean("temperature", kNames), "");
}

TEST(LineOf, CountsFromOne) {
  EXPECT_EQ(line_of("a\nb\nc", 1), "a");
  EXPECT_EQ(line_of("a\nb\nc", 3), "c");
  EXPECT_EQ(line_of("a\r\nb", 1), "a");
  EXPECT_EQ(line_of("a\nb", 3), "");
  EXPECT_EQ(line_of("", 1), "");
  EXPECT_EQ(line_of(std::string(1000, 'x'), 1).size(), 200u);
}

TEST(Ensure, NamesTheBrokenInvariant) {
  EXPECT_NO_THROW(ensure(true, "one is one"));
  try {
    ensure(false, "no micro-batch is lost");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    EXPECT_EQ(error.message(), "broken invariant: no micro-batch is lost");
  }
}

}  // namespace
}  // namespace orrery

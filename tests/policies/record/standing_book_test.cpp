#include "policies/record/standing_book.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

using Line = StandingBook::Line;
constexpr Nanos kSecond = kNanosPerSecond;

TEST(StandingBook, TheFirstDifferenceIsSaidInBothWorlds) {
  const Line start{kSecond, Line::What::started, {0}, {{0}, {1}, {4}}};
  const Line end{2 * kSecond, Line::What::done, {0}};
  EXPECT_EQ(first_difference({start, end}, {start, end}), "");
  EXPECT_EQ(first_difference({start, end}, {start}),
            "at 2 s job 0 ends; nothing more happens");
  EXPECT_EQ(first_difference({start}, {start, end}, kSecond), "");
  Line elsewhere = start;
  elsewhere.gpus = {{8}};
  EXPECT_EQ(first_difference({start}, {elsewhere}),
            "at 1 s job 0 starts on GPUs 0-1, 4; at 1 s job 0 starts on GPUs 8");
  EXPECT_EQ(first_difference({{kSecond, Line::What::stopped, {3}}}, {}),
            "at 1 s job 3 leaves its GPUs; nothing more happens");
}

}  // namespace
}  // namespace orrery

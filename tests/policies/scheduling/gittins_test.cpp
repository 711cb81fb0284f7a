#include "policies/scheduling/gittins.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(GittinsIndex, ByHand) {
  // Of two jobs one took 1 and one 10. Fresh: half a chance for 1 (1/2 over 1 = 1/2 a unit), or a
  // whole one for (1 + 10) / 2: 2/11.
  EXPECT_DOUBLE_EQ(gittins_index({1, 10}, 0), 0.5);
  // Behind the first only the long one is left: 8 more.
  EXPECT_DOUBLE_EQ(gittins_index({1, 10}, 2), 1.0 / 8);
  // Who has had more than any before goes last.
  EXPECT_DOUBLE_EQ(gittins_index({1, 10}, 10), 0);
  EXPECT_DOUBLE_EQ(gittins_index({}, 0), 0);
  // Three that took 2 and one that took 100: 3/4 over 2.
  EXPECT_DOUBLE_EQ(gittins_index({2, 2, 2, 100}, 0), 3.0 / (3 * 2 + 2));
}

}  // namespace
}  // namespace orrery

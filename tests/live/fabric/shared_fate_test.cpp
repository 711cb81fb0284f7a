#include "live/fabric/shared_fate.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "live/fabric/fabric.hpp"

namespace orrery::live {
namespace {

TEST(SharedFate, TheFirstBreakClosesEverythingOnce) {
  SharedFate fate;
  std::vector<std::string> closed;
  for (const char* name : {"a", "b"}) {
    fate.on_break([&closed, name](const std::string& why) { closed.push_back(name + why); });
  }
  EXPECT_FALSE(fate.is_broken());
  EXPECT_NO_THROW(fate.throw_if_broken());
  fate.break_all(" is gone");
  fate.break_all(" is gone again");
  EXPECT_EQ(closed, (std::vector<std::string>{"a is gone", "b is gone"}));
  EXPECT_TRUE(fate.is_broken());
  try {
    fate.throw_if_broken();
    FAIL();
  } catch (const FabricBroken& error) {
    EXPECT_STREQ(error.what(), " is gone");
  }
}

TEST(SharedFate, WhoeverComesAfterTheBreakIsClosedAtOnce) {
  SharedFate fate;
  fate.break_all("over");
  std::string why;
  fate.on_break([&why](const std::string& said) { why = said; });
  EXPECT_EQ(why, "over");
}

}  // namespace
}  // namespace orrery::live

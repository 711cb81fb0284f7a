// Tables of names of enums: both directions, absent and unknown names.
#include "core/schema/names.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace fruit {

enum class Fruit { apple, dried_pear };
constexpr std::array<std::string_view, 2> names_of(Fruit) { return {"apple", "dried-pear"}; }

}  // namespace fruit

namespace {

using fruit::Fruit;

TEST(Names, EachNameIsThatOfItsValue) {
  static_assert(name_of(Fruit::dried_pear) == "dried-pear");
  EXPECT_EQ(all_names<Fruit>(), (std::vector<std::string>{"apple", "dried-pear"}));
  EXPECT_EQ(named<Fruit>("dried-pear"), Fruit::dried_pear);
  EXPECT_EQ(find_named<Fruit>("apple"), Fruit::apple);
  EXPECT_EQ(find_named<Fruit>("dried_pear"), std::nullopt);
}

TEST(Names, AnEmptyNameIsThatOfAnAbsentKey) {
  EXPECT_EQ(named("", std::optional(Fruit::dried_pear)), Fruit::dried_pear);
  EXPECT_EQ(named("apple", std::optional(Fruit::dried_pear)), Fruit::apple);
  EXPECT_THROW(named<Fruit>(""), Error);
}

TEST(Names, AnUnknownNameIsRefusedWithTheNearestOne) {
  try {
    named("aple", std::optional(Fruit::apple));
    FAIL() << "a value was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_EQ(error.message(),
              "expected one of apple, dried-pear, found 'aple'; did you mean 'apple'?");
  }
}

}  // namespace
}  // namespace orrery

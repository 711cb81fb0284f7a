#include <gtest/gtest.h>

#include "core/error.hpp"
#include "traces/chakra/chakra_wire.hpp"

namespace orrery {
namespace {

TEST(ChakraGroups, AnObjectAndAListAreRead) {
  const auto side = groups_in_json("g.json", R"({"1": [0, 1], "2": [2]})");
  ASSERT_EQ(side.size(), 2u);
  EXPECT_EQ(side[0].ranks, (std::vector<std::uint32_t>{0, 1}));
  const auto list = groups_in_json("g.json", R"([{"pg_name": "a", "ranks": [5]}, {"x": 1}])");
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].name, "a");
}

TEST(ChakraGroups, WhatIsNoGroupIsRefused) {
  for (const char* bad : {"{", "3", R"({"1": 5})", R"({"1": [-1]})", R"({"1": [4294967296]})",
                          R"({"1": ["0"]})", "{\"1\": [\"\xff\"]}"}) {
    EXPECT_THROW(groups_in_json("g.json", bad), Error) << bad;
  }
}

}  // namespace
}  // namespace orrery

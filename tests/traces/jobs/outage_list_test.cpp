#include "traces/jobs/outage_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

TEST(OutageList, RowsInTheOrderOfTheFile) {
  const auto outages =
      parse_outages("o.csv", "begin_s,node,end_s,cause\n5,1,9,maintenance\n0,0,3,disk\n", 2);
  ASSERT_EQ(outages.size(), 2u);
  EXPECT_EQ(outages[0].node, 1u);
  EXPECT_EQ(outages[0].begin_s, 5);
  EXPECT_EQ(outages[0].end_s, 9);
  EXPECT_TRUE(outages[0].planned);
  EXPECT_FALSE(outages[1].planned);
}

TEST(OutageList, WhatCannotBeIsRefusedWithItsPlace) {
  const auto refusal = [](const std::string& text) {
    try {
      parse_outages("o.csv", text, 2);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("node,begin_s\n"), ::testing::HasSubstr("none named end_s"));
  EXPECT_THAT(
      refusal("node,begin_s,end_s\n2,0,1\n"),
      ::testing::HasSubstr("o.csv:2:1: error: there is no node 2: the cluster has nodes 0"));
  EXPECT_THAT(refusal("node,begin_s,end_s\n1,5,5\n"),
              ::testing::HasSubstr("o.csv:2:5: error: an outage ends after it has begun"));
  EXPECT_THAT(refusal("node,begin_s,end_s\n1,x,5\n"), ::testing::HasSubstr("o.csv:2:3"));
}

}  // namespace
}  // namespace orrery

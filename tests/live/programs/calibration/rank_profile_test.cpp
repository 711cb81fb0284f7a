#include "live/programs/calibration/rank_profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

constexpr const char* kProfile = R"({
  "rank": 1, "ranks": 4,
  "parts": [["input", 1.0, 1.5], ["backward", 2, 3], ["update", 3, 3.5]],
  "operations": [["all_reduce", "gloo:0:0-1-2-3#0", 128, 2.1, 2.2, 2.9, 0]],
  "state": {"tokens": 64, "parameter_bytes": 256.0, "parameters": {"matrices": 32}}
})";

TEST(RankProfile, AProfileIsReadWithTheMembersOfItsGroups) {
  const RankProfile profile = rank_profile_of(kProfile, "1");
  EXPECT_EQ(profile.rank, 1u);
  EXPECT_EQ(profile.ranks, 4u);
  ASSERT_EQ(profile.parts.size(), 3u);
  EXPECT_EQ(profile.parts[1].kind, ProfiledPart::Kind::backward);
  EXPECT_EQ(profile.parts[0].end_s, 1.5);
  ASSERT_EQ(profile.operations.size(), 1u);
  EXPECT_EQ(profile.operations[0].members, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(profile.operations[0].ended_s, 2.9);
  EXPECT_EQ(profile.state.tokens(), 64u);
  EXPECT_EQ(profile.state.parameters().matrices(), 32);
}

TEST(RankProfile, AnotherTextIsRefusedWithItsPlace) {
  for (const char* text :
       {"", "{}",
        R"({"rank": 0, "ranks": 1, "parts": [["x", 1, 2]], "operations": [], "state": {}})",
        R"({"rank": 0, "ranks": 1, "parts": [], "operations": [], "state": {"no_key": 1}})"}) {
    try {
      rank_profile_of(text, "profiles/3");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("profiles/3: expected the profile of a rank"));
    }
  }
}

}  // namespace
}  // namespace orrery::live

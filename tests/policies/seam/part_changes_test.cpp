#include "policies/seam/part_changes.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

constexpr Part kGpu{PartKind::gpu, 3}, kNode{PartKind::node, 1}, kNic{PartKind::nic, 0};

TEST(PartChanges, ARemovalIsAnnouncedCarriedOutAndOver) {
  Removal removal;
  removal.at = 90;
  removal.back_at = 300;
  const auto before = reported_parts({}, {{kNode, removal}});
  const auto announced = part_changes({}, before);
  ASSERT_EQ(announced.size(), 1u);
  EXPECT_EQ(announced[0].part, kNode);
  EXPECT_EQ(announced[0].to.health, Health::ok);
  EXPECT_EQ(announced[0].to.removal, removal);
  EXPECT_FALSE(announced[0].to.is_nominal());

  const auto during = reported_parts({kNode}, {{kNode, removal}});
  const auto removed = part_changes(before, during);
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].to.health, Health::lost);
  EXPECT_EQ(removed[0].to.rate, 0);
  EXPECT_EQ(removed[0].to.removal, removal) << "policies know when it returns";

  const auto back = part_changes(during, reported_parts({}, {}));
  ASSERT_EQ(back.size(), 1u);
  EXPECT_TRUE(back[0].to.is_nominal());
}

TEST(PartChanges, OnlyDifferencesAreReportedNewOnesFirst) {
  std::map<Part, PartState> known = reported_parts({kGpu, kNic}, {});
  for (auto& [part, state] : known) state.since = 7;  // World sets it so
  EXPECT_TRUE(part_changes(known, reported_parts({kGpu, kNic}, {})).empty());
  const auto changes = part_changes(known, reported_parts({kNode, kNic}, {}));
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].part, kNode);
  EXPECT_EQ(changes[1].part, kGpu);
  EXPECT_TRUE(changes[1].to.is_nominal());
}

}  // namespace
}  // namespace orrery

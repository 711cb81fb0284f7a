#include "policies/seam/part_changes.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

constexpr Part kGpu{PartKind::gpu, 3}, kNode{PartKind::node, 1}, kNic{PartKind::nic, 0};

TEST(PartChanges, ARemovalIsAnnouncedCarriedOutAndOver) {
  Removal removal;
  removal.at = 90;
  removal.back_at = 300;
  const auto before = reported_parts({}, {}, {{kNode, removal}});
  const auto announced = part_changes({}, before);
  ASSERT_EQ(announced.size(), 1u);
  EXPECT_EQ(announced[0].part, kNode);
  EXPECT_EQ(announced[0].to.health, Health::ok);
  EXPECT_EQ(announced[0].to.removal, removal);
  EXPECT_FALSE(announced[0].to.is_nominal());

  const auto during = reported_parts({kNode}, {}, {{kNode, removal}});
  const auto removed = part_changes(before, during);
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].to.health, Health::lost);
  EXPECT_EQ(removed[0].to.rate, 0);
  EXPECT_EQ(removed[0].to.removal, removal) << "policies know when it returns";

  const auto back = part_changes(during, reported_parts({}, {}, {}));
  ASSERT_EQ(back.size(), 1u);
  EXPECT_TRUE(back[0].to.is_nominal());
}

TEST(PartChanges, OnlyDifferencesAreReportedNewOnesFirst) {
  std::map<Part, PartState> known = reported_parts({kGpu, kNic}, {}, {});
  for (auto& [part, state] : known) state.since = 7;  // World sets it so
  EXPECT_TRUE(part_changes(known, reported_parts({kGpu, kNic}, {}, {})).empty());
  const auto changes = part_changes(known, reported_parts({kNode, kNic}, {}, {}));
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].part, kNode);
  EXPECT_EQ(changes[1].part, kGpu);
  EXPECT_TRUE(changes[1].to.is_nominal());
}

TEST(PartChanges, ASlowerPartIsReportedAtEachChangeOfItsRate) {
  const auto normal = reported_parts({}, {}, {});
  const auto half = reported_parts({}, {{kGpu, 0.5}}, {});
  const auto began = part_changes(normal, half);
  ASSERT_EQ(began.size(), 1u);
  EXPECT_EQ(began[0].part, kGpu);
  EXPECT_EQ(began[0].to.rate, 0.5);
  EXPECT_TRUE(is_slower(began[0].to));
  EXPECT_TRUE(part_changes(half, half).empty());
  const auto quarter = reported_parts({}, {{kGpu, 0.25}}, {});
  ASSERT_EQ(part_changes(half, quarter).size(), 1u);
  EXPECT_EQ(part_changes(half, quarter)[0].to.rate, 0.25);
  const auto ended = part_changes(quarter, normal);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_TRUE(ended[0].to.is_nominal());
}

TEST(PartChanges, ALostPartIsNotSlowerAndMayReturnSlower) {
  const auto lost = reported_parts({kNode}, {{kNode, 0.5}}, {});
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost.at(kNode).health, Health::lost);
  EXPECT_EQ(lost.at(kNode).rate, 0);
  EXPECT_FALSE(is_slower(lost.at(kNode)));
  const auto back = part_changes(lost, reported_parts({}, {{kNode, 0.5}}, {}));
  ASSERT_EQ(back.size(), 1u);
  EXPECT_TRUE(is_slower(back[0].to));
  Removal removal;
  removal.at_step = 20;
  const auto planned = reported_parts({}, {{kNode, 0.5}}, {{kNode, removal}});
  EXPECT_EQ(planned.at(kNode).rate, 0.5);
  EXPECT_EQ(planned.at(kNode).removal, removal);
}

}  // namespace
}  // namespace orrery

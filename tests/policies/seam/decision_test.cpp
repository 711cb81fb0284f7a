#include "policies/seam/decision.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

std::vector<DecisionId> ids_of(const DecisionList& list) {
  std::vector<DecisionId> ids;
  for (const Decision& decision : list.items()) ids.push_back(decision.id);
  return ids;
}

TEST(Action, SaysWhoseItIsAndWhetherItWaitsForAStep) {
  EXPECT_EQ(job_of(Configure{{3}, OnLoss{}}), JobId{3});
  EXPECT_EQ(job_of(Assign{{4}}), JobId{4});
  EXPECT_TRUE(waits_for_step(Configure{{0}, Shares{}}));
  EXPECT_TRUE(waits_for_step(Configure{{0}, CollectiveTable{}}));
  EXPECT_TRUE(waits_for_step(Configure{{0}, CodecRules{}}));
  EXPECT_FALSE(waits_for_step(Configure{{0}, CheckpointPlan{}}));
  EXPECT_FALSE(waits_for_step(Configure{{0}, OnLoss{}}));
  EXPECT_FALSE(waits_for_step(Assign{{0}}));
  EXPECT_FALSE(waits_for_step(Save{{0}}));
}

TEST(DecisionList, TheIdIsKnownAtOnceAndCountsOn) {
  DecisionList list(7);
  EXPECT_EQ(list.add(Save{{0}}, "why").id, 7u);
  EXPECT_EQ(list.add(Save{{1}}, "").id, 8u);
  EXPECT_EQ(list.items()[0].why, "why");
  list.clear();
  EXPECT_TRUE(list.items().empty());
  EXPECT_EQ(list.add(Save{{0}}, "").id, 9u);
}

TEST(DecisionList, WhatIsDroppedGivesItsIdsBack) {
  DecisionList list(7);
  list.add(Save{{0}}, ""), list.add(Save{{1}}, "");
  list.wake(5);
  list.rest();
  list.drop_all();
  EXPECT_TRUE(list.wake_times().empty());
  EXPECT_FALSE(list.is_resting());
  EXPECT_EQ(list.next(), 7u);
}

TEST(DecisionList, AnotherOnesComeBehindWithTheirIdsAndGroupsOfTheirOwn) {
  DecisionList all;
  all.add(Save{{0}}, "").group = all.new_group();
  DecisionList one(all.next());
  const std::uint32_t first = one.new_group(), second = one.new_group();
  one.add(Save{{1}}, "").group = second;
  one.add(Save{{2}}, "").group = first;
  one.add(Save{{3}}, "");
  one.wake(11);
  one.rest();
  all.append_list(std::move(one));
  DecisionList two(all.next());
  two.add(Save{{4}}, "").group = two.new_group();
  all.append_list(std::move(two));
  EXPECT_EQ(ids_of(all), (std::vector<DecisionId>{0, 1, 2, 3, 4}));
  EXPECT_EQ(all.next(), 5u);
  EXPECT_EQ(all.wake_times(), std::vector<Nanos>{11});
  EXPECT_FALSE(all.is_resting()) << "whether all rest is for the one who appends to say";
  std::vector<std::uint32_t> groups;
  for (const Decision& decision : all.items()) groups.push_back(decision.group);
  EXPECT_EQ(groups, (std::vector<std::uint32_t>{1, 3, 2, 0, 4}));
  EXPECT_EQ(all.new_group(), 5u);
}

TEST(DecisionList, AnnotationsAreAppendedAndCleared) {
  DecisionList all, more;
  all.add_note("slow", 3.0);
  more.add_note("why", std::string("noise"));
  all.append_list(std::move(more));
  ASSERT_EQ(all.notes().size(), 2u);
  EXPECT_EQ(std::get<double>(all.notes()[0].value), 3.0);
  EXPECT_EQ(all.notes()[1].key, "why");
  EXPECT_EQ(std::get<std::string>(all.notes()[1].value), "noise");
  all.clear();
  EXPECT_TRUE(all.notes().empty());
}

TEST(DecisionList, ADecisionPutThereKeepsItsId) {
  DecisionList list(3);
  list.put_decision({.id = 77, .what = Save{{0}}});
  EXPECT_EQ(ids_of(list), std::vector<DecisionId>{77});
  EXPECT_EQ(list.next(), 3u);
}

}  // namespace
}  // namespace orrery

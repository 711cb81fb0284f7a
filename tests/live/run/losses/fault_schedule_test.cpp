#include "live/run/losses/fault_schedule.hpp"

#include <gtest/gtest.h>

#include "tests/traces/sample_cluster.hpp"

namespace orrery::live {
namespace {

const std::vector<std::uint32_t> kAll{0, 1, 2, 3};
const Cluster kCluster = orrery::testing::sample_cluster(2);

Fault& add(Scenario& scenario, std::uint32_t rank) {
  Fault& fault = *scenario.add_faults();
  fault.set_rank(rank);
  return fault;
}

TEST(FaultSchedule, StrikesOnceAtItsStepOrInstant) {
  Scenario scenario;
  add(scenario, 1).set_at_step(3);
  scenario.mutable_faults(0)->set_kill(true);
  add(scenario, 2).set_at_time(500);
  scenario.mutable_faults(1)->set_stop(true);
  FaultSchedule faults(scenario, kCluster, 4);
  EXPECT_EQ(faults.next_instant(0), 500);
  EXPECT_TRUE(faults.due(2, 100, kAll, kAll).empty());
  const auto first = faults.due(3, 100, kAll, kAll);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].rank, 1u);
  EXPECT_FALSE(faults.is_stop(first[0].fault));
  const auto second = faults.due(3, 500, kAll, kAll);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].rank, 2u);
  EXPECT_TRUE(faults.is_stop(second[0].fault));
  EXPECT_FALSE(faults.is_stop_over(second[0].fault, 1'000)) << "the stop has no end";
  EXPECT_EQ(faults.next_instant(500), kNever);
  EXPECT_TRUE(faults.due(9, 900, kAll, kAll).empty());
  EXPECT_EQ(faults.injected(), 2u);
}

TEST(FaultSchedule, AStoppedRankRunsAgainAtTheEndOfTheStopOnce) {
  Scenario scenario;
  Fault& fault = add(scenario, 2);
  fault.set_at_time(500);
  fault.set_stop(true);
  fault.set_for_(300);
  FaultSchedule faults(scenario, kCluster, 4);
  ASSERT_EQ(faults.due(0, 510, kAll, kAll).size(), 1u);
  EXPECT_EQ(faults.next_instant(510), 800);
  EXPECT_FALSE(faults.is_stop_over(0, 799));
  EXPECT_TRUE(faults.is_stop_over(0, 800));
  EXPECT_TRUE(faults.drain_resumed(799).empty());
  EXPECT_EQ(faults.drain_resumed(800), (std::vector<std::uint32_t>{2}));
  EXPECT_TRUE(faults.drain_resumed(900).empty());
  const FaultInjection injected{.fault = 0, .rank = 2, .at = 510, .is_noticed = true};
  FaultSchedule successor(scenario, kCluster, 4, 0, {.injections = {injected}});
  EXPECT_EQ(successor.drain_resumed(810), (std::vector<std::uint32_t>{2}));
}

TEST(FaultSchedule, AStrikeWaitsForARankThatIsAwayOrNotYetMissed) {
  Scenario scenario;
  for (int i = 0; i < 2; ++i) {
    Fault& fault = add(scenario, 1);
    fault.set_at_step(0);
    fault.set_kill(true);
  }
  FaultSchedule faults(scenario, kCluster, 4);
  const std::vector<std::uint32_t> without{0, 2, 3};
  EXPECT_TRUE(faults.due(0, 10, without, kAll).empty());
  EXPECT_EQ(faults.due(0, 20, kAll, kAll).size(), 1u);
  EXPECT_TRUE(faults.due(0, 30, kAll, kAll).empty());
  EXPECT_EQ(faults.take_hit_time(1), 20);
  EXPECT_EQ(faults.take_hit_time(1), std::nullopt);
  EXPECT_EQ(faults.due(0, 40, kAll, kAll).size(), 1u);
}

TEST(FaultSchedule, ARankThatIsAwayForGoodIsStruckNeitherThenNorLater) {
  Scenario scenario;
  Fault& fault = add(scenario, 1);
  fault.set_at_step(0);
  fault.set_kill(true);
  FaultSchedule faults(scenario, kCluster, 4);
  const std::vector<std::uint32_t> without{0, 2, 3};
  EXPECT_TRUE(faults.due(0, 10, without, without).empty());
  EXPECT_TRUE(faults.due(4, 20, kAll, kAll).empty()) << "it has come back";
  EXPECT_EQ(faults.injected(), 1u);
}

TEST(FaultSchedule, ASlowRankOrOneBeyondTheJobIsOnlyCounted) {
  Scenario scenario;
  add(scenario, 1).set_slow(2);
  Fault& beyond = add(scenario, 9);
  beyond.set_kill(true);
  FaultSchedule faults(scenario, kCluster, 4);
  EXPECT_TRUE(faults.due(0, 0, kAll, kAll).empty());
  EXPECT_EQ(faults.injected(), 2u);
}

TEST(FaultSchedule, ANodeThatGoesDownTakesAllItsRanksAtOnce) {
  Scenario scenario;
  Fault& fault = *scenario.add_faults();
  fault.set_at_time(500);
  fault.set_node(0);
  fault.set_down(true);
  FaultSchedule faults(scenario, kCluster, 4);
  EXPECT_TRUE(faults.due(0, 499, kAll, kAll).empty());
  EXPECT_EQ(faults.injected(), 0u);
  const auto struck = faults.due(0, 500, kAll, kAll);
  ASSERT_EQ(struck.size(), 4u);
  for (std::uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(struck[rank].rank, rank);
  EXPECT_EQ(faults.injected(), 1u);
}

TEST(FaultSchedule, WhatAnEarlierControllerCarriedOutIsNotDoneAgain) {
  Scenario scenario;
  Fault& fault = *scenario.add_faults();
  fault.set_at_time(500);
  fault.set_gpu(2);
  fault.set_down(true);
  FaultSchedule faults(scenario, kCluster, 4, 0,
                       {.injections = {{.fault = 0, .rank = 2, .at = 510}}});
  EXPECT_TRUE(faults.due(9, 900, kAll, kAll).empty());
  EXPECT_EQ(faults.take_hit_time(2), 510);
}

TEST(FaultSchedule, StrikesOfAnEarlierRunsStepsAreNotRepeated) {
  Scenario scenario;
  add(scenario, 1).set_at_step(3);
  scenario.mutable_faults(0)->set_kill(true);
  FaultSchedule faults(scenario, kCluster, 4, 5);
  EXPECT_TRUE(faults.due(5, 10, kAll, kAll).empty());
  EXPECT_EQ(faults.injected(), 0u);
}

TEST(FaultSchedule, ASuccessorContinuesAfterTheInstantAndTheStepOfItsPredecessor) {
  Scenario scenario;
  Fault& kill = add(scenario, 1);
  kill.set_at_time(500);
  kill.set_kill(true);
  Fault& slow = add(scenario, 2);
  slow.set_at_step(4);
  slow.set_slow(2);
  for (const Nanos until : {400, 600}) {
    FaultSchedule faults(scenario, kCluster, 4, 0, {.committed = 9, .until = until});
    EXPECT_EQ(faults.due(0, 700, kAll, kAll).size(), until < 500 ? 1u : 0u);
    EXPECT_EQ(faults.hardware(2, 0, 700).speed(), 0.5) << "step 8 has been committed";
  }
}

TEST(FaultSchedule, HardwareFollowsWhateverHitsTheRankItsGpuNodeOrNic) {
  Scenario scenario;
  Fault& slow = add(scenario, 1);
  slow.set_at_time(100);
  slow.set_for_(100);
  slow.set_slow(2);
  Fault& gpu = *scenario.add_faults();
  gpu.set_at_step(4);
  gpu.set_gpu(1);
  gpu.set_rate(0.5);
  Fault& nic = *scenario.add_faults();
  nic.set_at_step(4);
  nic.set_nic(1);
  nic.set_rate(0.25);
  Fault& cut = add(scenario, 1);
  cut.set_at_time(150);
  cut.set_until_time(160);
  cut.set_link_down(true);
  FaultSchedule faults(scenario, kCluster, 4);
  EXPECT_EQ(faults.hardware(1, 0, 99).speed(), 1);
  EXPECT_EQ(faults.hardware(1, 0, 100).speed(), 0.5);
  EXPECT_EQ(faults.hardware(1, 4, 100).speed(), 0.25);
  EXPECT_EQ(faults.hardware(1, 4, 200).speed(), 0.5);
  EXPECT_EQ(faults.hardware(0, 4, 200).speed(), 1);
  EXPECT_EQ(faults.hardware(1, 3, 0).link_rate(), 0);
  EXPECT_EQ(faults.hardware(1, 4, 0).link_rate(), 10e9 / 4);
  EXPECT_FALSE(faults.hardware(1, 4, 149).link_down());
  EXPECT_TRUE(faults.hardware(1, 4, 150).link_down());
  EXPECT_FALSE(faults.hardware(1, 4, 160).link_down());
  EXPECT_EQ(faults.next_instant(100), 150);
}

TEST(FaultSchedule, ASlowLinkIsSlowerThanTheScenariosRateAllows) {
  Scenario scenario;
  scenario.mutable_live()->set_link_rate(1e6);
  Fault& fault = add(scenario, 1);
  fault.set_at_step(0);
  fault.set_link_slow(4);
  FaultSchedule faults(scenario, kCluster, 4);
  EXPECT_EQ(faults.hardware(1, 0, 0).link_rate(), 2.5e5);
  EXPECT_EQ(faults.hardware(0, 0, 0).link_rate(), 1e6);
}

}  // namespace
}  // namespace orrery::live

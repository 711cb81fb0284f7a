#include "sim/training/fault_plan.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::sim {
namespace {

class FaultPlanTest : public ::testing::Test {
 protected:
  FaultPlan plan(const std::string& faults) {
    loaded_ = testing::small_scenario(1, 1, 8, "faults:\n" + faults);
    cluster_ = std::make_unique<Cluster>(
        build_cluster(loaded_.scenario.cluster(), loaded_.places));
    std::vector<GpuId> placement;
    for (std::uint32_t i = 0; i < 8; ++i) placement.push_back({i});
    return FaultPlan(loaded_.scenario, *cluster_, placement);
  }
  LoadedScenario loaded_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(FaultPlanTest, FaultsAtStepsHoldFromTheirStepToTheirEnd) {
  const FaultPlan faults = plan("  - {at_step: 10, rank: 2, slow: 3, until_step: 20}\n");
  EXPECT_EQ(faults.state(9, 0), estimates::HardwareState{});
  EXPECT_EQ(faults.state(10, 0).slow_of({2}), 3);
  EXPECT_EQ(faults.state(19, 0).slow_of({2}), 3);
  EXPECT_EQ(faults.state(20, 0), estimates::HardwareState{});
  EXPECT_EQ(faults.next_change(0), Step{10});
  EXPECT_EQ(faults.next_change(10), Step{20});
  EXPECT_EQ(faults.next_change(20), std::nullopt);
  EXPECT_EQ(faults.begun_count(9, 0), 0u);
  EXPECT_EQ(faults.begun_count(10, 0), 1u);
}

TEST_F(FaultPlanTest, RampsChangeEveryStepUntilTheirTop) {
  const FaultPlan faults = plan("  - {at_step: 4, rank: 1, ramp: {slow: 3, steps: 4}}\n");
  EXPECT_EQ(faults.state(4, 0), estimates::HardwareState{});
  EXPECT_DOUBLE_EQ(faults.state(6, 0).slow_of({1}), 2);
  EXPECT_DOUBLE_EQ(faults.state(8, 0).slow_of({1}), 3);
  EXPECT_DOUBLE_EQ(faults.state(99, 0).slow_of({1}), 3);
  EXPECT_EQ(faults.next_change(5), Step{6});
  EXPECT_EQ(faults.next_change(8), std::nullopt);
}

TEST_F(FaultPlanTest, FaultsAtTimesAreInstants) {
  const FaultPlan faults = plan(
      "  - {at_time: 2 s, rank: 5, link_slow: 4}\n"
      "  - {at_time: 3 s, rank: 1, kill: true}\n");
  const Nanos second = kNanosPerSecond;
  EXPECT_EQ(faults.state(0, second), estimates::HardwareState{});
  const estimates::HardwareState later = faults.state(0, 2 * second);
  EXPECT_EQ(later.link_slow_of(cluster_->nic_out({0}, 5)), 4);
  EXPECT_EQ(later.link_slow_of(cluster_->nic_in({0}, 5)), 4);
  EXPECT_EQ(later.link_slow.size(), 2u);
  EXPECT_EQ(faults.instants(0, 10 * second), (std::vector<Nanos>{2 * second, 3 * second}));
  EXPECT_EQ(faults.next_instant(2 * second), 3 * second);
  EXPECT_FALSE(faults.first_loss(0, 0, 3 * second).has_value());
  EXPECT_EQ(faults.touched_at(2 * second).ranks, std::vector<RankId>{{5}});
}

TEST_F(FaultPlanTest, TheFirstOfSeveralKillsCounts) {
  const FaultPlan faults = plan(
      "  - {at_time: 3 s, rank: 1, kill: true}\n"
      "  - {at_time: 2 s, rank: 4, kill: true}\n"
      "  - {at_step: 7, rank: 6, kill: true}\n");
  const Nanos second = kNanosPerSecond;
  const auto first = faults.first_loss(0, second, kNever);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->cause, "rank 4 killed");
  EXPECT_EQ(first->at, 2 * second);
  EXPECT_EQ(faults.first_loss(7, second, kNever)->cause, "rank 6 killed");
  EXPECT_FALSE(faults.first_loss(0, 4 * second, kNever).has_value());
}

TEST_F(FaultPlanTest, AStoppedRankIsOneThatOnlyItsSilenceTells) {
  const FaultPlan faults = plan(
      "  - {at_step: 3, rank: 1, stop: true}\n"
      "  - {at_step: 5, rank: 2, kill: true}\n");
  EXPECT_TRUE(faults.state(3, 0).slow.empty());
  const auto stopped = faults.first_loss(3, 0, kNever);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_TRUE(stopped->silent);
  EXPECT_EQ(stopped->cause, "rank 1 stopped");
  EXPECT_FALSE(faults.first_loss(5, 0, kNever)->silent);
}

TEST_F(FaultPlanTest, AllRanksOfOneInstantAreLostAtOnceAndEachIsSpent) {
  FaultPlan faults = plan(
      "  - {at_time: 2 s, rank: 4, kill: true}\n"
      "  - {at_time: 2 s, rank: 1, stop: true}\n"
      "  - {at_time: 3 s, rank: 2, kill: true}\n");
  const Nanos second = kNanosPerSecond;
  const std::vector<FatalFault> lost = faults.losses(0, 0, kNever);
  ASSERT_EQ(lost.size(), 2u);
  EXPECT_EQ(lost[0].rank.value, 1u);
  EXPECT_TRUE(lost[0].silent);
  EXPECT_EQ(lost[1].cause, "rank 4 killed");
  faults.mark_spent(lost[0]);
  const auto left =
      faults.first_loss(0, 2 * second + 5, kNever);  // the other one is as good as struck
  ASSERT_TRUE(left.has_value());
  EXPECT_EQ(left->rank.value, 4u);
  EXPECT_EQ(left->at, 2 * second + 5);
  faults.mark_spent(*left);
  EXPECT_EQ(faults.first_loss(0, 2 * second + 9, kNever)->rank.value, 2u);
}

TEST_F(FaultPlanTest, PartsAreTheirRanksAndLinks) {
  FaultPlan faults = plan(
      "  - {at_step: 1, gpu: 2, rate: 0.5}\n"
      "  - {at_step: 2, node: 0, rate: 0.5, until_step: 4}\n"
      "  - {at_step: 3, nic: 5, rate: 0.25}\n"
      "  - {at_time: 1 s, plane: 6, down: true, for: 1 s}\n"
      "  - {at_step: 9, gpu: 7, down: true}\n");
  EXPECT_EQ(faults.state(1, 0).slow_of({2}), 2);
  EXPECT_EQ(faults.state(2, 0).slow_of({2}), 4);
  EXPECT_EQ(faults.state(2, 0).slow_of({3}), 2);
  EXPECT_EQ(faults.state(4, 0).slow_of({3}), 1);
  EXPECT_EQ(faults.state(3, 0).link_slow_of(cluster_->nic_in({0}, 5)), 4);
  const Nanos second = kNanosPerSecond;
  EXPECT_TRUE(faults.state(0, second).down.contains(cluster_->nic_out({0}, 6).value));
  EXPECT_EQ(faults.cause_of(cluster_->nic_out({0}, 6), 0, second).cause, "plane 6 down");
  EXPECT_TRUE(faults.state(0, 2 * second).down.empty());
  EXPECT_EQ(faults.instants(0, kNever), (std::vector<Nanos>{second, 2 * second}));
  const auto lost = faults.first_loss(9, 0, kNever);
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->rank.value, 7u);
  EXPECT_EQ(lost->cause, "gpu 7 down");
}

TEST_F(FaultPlanTest, OnlyCheckpointsUseStorage) {
  try {
    plan("  - {at_step: 1, storage: 0, down: true}\n");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_EQ(error.message(), "faults[0].storage: expected a run that writes checkpoints, "
                               "found none: give the key checkpoints or remove the fault");
  }
  const FaultPlan faults = plan(
      "  - {at_time: 1 s, storage: 0, rate: 0.25, for: 1 s}\n"
      "  - {at_time: 4 s, storage: 0, down: true, for: 1 s}\n"
      "checkpoints: {folder: here}\n");
  const Nanos second = kNanosPerSecond;
  EXPECT_EQ(faults.storage(0, 0), 1);
  EXPECT_EQ(faults.storage(0, second), 0.25);
  EXPECT_EQ(faults.storage(0, 4 * second), 0);
  EXPECT_EQ(faults.storage(0, 5 * second), 1);
}

TEST_F(FaultPlanTest, ADownedNicStaysDownUntilItsEnd) {
  const FaultPlan faults = plan(
      "  - {at_step: 3, rank: 2, link_down: true, until_step: 5}\n"
      "  - {at_time: 2 s, rank: 4, link_down: true}\n");
  const auto nic = [&](std::uint32_t rail) { return cluster_->nic_out({0}, rail); };
  EXPECT_TRUE(faults.state(2, 0).down.empty());
  EXPECT_TRUE(faults.state(3, 0).down.contains(nic(2).value));
  EXPECT_TRUE(faults.state(4, 0).down.contains(nic(2).value));
  EXPECT_TRUE(faults.state(5, 0).down.empty());
  EXPECT_TRUE(faults.state(9, 2 * kNanosPerSecond).down.contains(nic(4).value));
  EXPECT_EQ(faults.cause_of(nic(4), 9, 2 * kNanosPerSecond).cause, "NIC of rank 4 down");
}

}  // namespace
}  // namespace orrery::sim

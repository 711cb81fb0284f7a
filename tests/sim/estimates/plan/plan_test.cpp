#include "sim/estimates/plan/plan.hpp"

#include <memory>

#include <gtest/gtest.h>

#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

class PlanTest : public ::testing::Test {
 protected:
  Plan make(int tensor, int pipeline, int data, HardwareState state = {}, bool full = false) {
    loaded_ = testing::small_scenario(tensor, pipeline, data);
    cluster_ =
        std::make_unique<Cluster>(build_cluster(loaded_.scenario.cluster(), loaded_.places));
    graph_ = std::make_unique<StepGraph>(loaded_.scenario.job());
    placement_.clear();
    for (std::uint32_t i = 0; i < graph_->ranks(); ++i) placement_.push_back({i});
    const std::vector<std::uint32_t> shares(graph_->data(), 8);
    return make_plan({.cluster = *cluster_, .graph = *graph_, .profile = cost_profile("H100"),
                      .placement = placement_, .state = state, .micro_batches = shares,
                      .full_detail = full});
  }
  LoadedScenario loaded_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<StepGraph> graph_;
  std::vector<GpuId> placement_;
};

/// The flow of a stage's gradient all-reduce.
WideFlow ring_of(const Plan& plan, std::uint32_t group) {
  return plan.comms[plan.groups[group].ways[0].plan].phases[0].parts[0];
}

TEST_F(PlanTest, LikeReplicasAreOneClass) {
  const Plan plan = make(8, 1, 8);
  ASSERT_EQ(plan.classes.size(), 1u);
  EXPECT_EQ(plan.classes[0].members.size(), 8u);
  EXPECT_EQ(plan.workers(), 1u);
  EXPECT_EQ(make(8, 1, 8, {}, true).classes.size(), 8u);
}

TEST_F(PlanTest, SlowRankSetsItsReplicaApart) {
  HardwareState state;
  state.slow[11] = 2;  // replica 1 of tensor groups of 8
  const Plan plan = make(8, 1, 8, state);
  ASSERT_EQ(plan.classes.size(), 2u);
  EXPECT_EQ(plan.classes[1].members, std::vector<std::uint32_t>{1});
  EXPECT_EQ(plan.class_of, (std::vector<std::uint32_t>{0, 1, 0, 0, 0, 0, 0, 0}));
}

TEST_F(PlanTest, DegradedNicSetsItsReplicaApart) {
  HardwareState state;
  make(8, 1, 4);
  state.link_slow[cluster_->nic_out({2}, 3).value] = 4;
  const Plan plan = make(8, 1, 4, state);
  ASSERT_EQ(plan.classes.size(), 2u);
  EXPECT_EQ(plan.classes[1].members, std::vector<std::uint32_t>{2});
  // Only the slowest link can bind a ring that nothing else shares.
  const WideFlow ring = ring_of(plan, 0);
  ASSERT_EQ(ring.links.size(), 1u);
  const Slot& slot = plan.slots[ring.links[0]];
  EXPECT_DOUBLE_EQ(slot.bandwidth, 50e9 * cost_profile("H100").network / 4);
}

TEST_F(PlanTest, FullDetailKeepsRailsApart) {
  const Plan plan = make(8, 1, 4, {}, true);
  EXPECT_EQ(plan.member_hosts, 8u);
  EXPECT_EQ(plan.comms[plan.groups[0].ways[0].plan].phases[0].parts.size(), 8u);
  const Plan folded = make(8, 1, 4);
  EXPECT_EQ(folded.comms[folded.groups[0].ways[0].plan].phases[0].parts.size(), 1u);
}

TEST_F(PlanTest, PinnedLinksStayVisible) {
  make(8, 1, 4);
  const LinkId link = cluster_->nic_in({1}, 0);
  const std::vector<std::uint32_t> shares(4, 8);
  const HardwareState state;
  const Plan plan = make_plan({.cluster = *cluster_, .graph = *graph_,
                               .profile = cost_profile("H100"), .placement = placement_,
                               .state = state, .micro_batches = shares, .full_detail = false,
                               .apart = {{9}}, .pinned = {link}});
  ASSERT_EQ(plan.pinned.count(link.value), 1u);
  EXPECT_EQ(plan.slots[plan.pinned.at(link.value)].link, link);
  EXPECT_EQ(plan.classes.size(), 2u);
}

TEST_F(PlanTest, OneRingPerRailWhereNodesHoldSeveralMembers) {
  make(1, 1, 16);
  const auto channels = ring_channels(*cluster_, placement_);
  ASSERT_EQ(channels.size(), 8u);
  for (std::size_t channel = 0; channel < channels.size(); ++channel) {
    ASSERT_EQ(channels[channel].size(), 16u);
    EXPECT_EQ(cluster_->rail_of(channels[channel].front()), channel);
  }
  // Nothing is busier than a NIC that carries one of the eight rings.
  const Plan plan = make(1, 1, 16);
  EXPECT_DOUBLE_EQ(ring_of(plan, 0).share, 1.0 / 8 * 2 * 15 / 16);
  EXPECT_EQ(ring_channels(*cluster_, {{0}, {1}, {8}}).size(), 1u);
}

}  // namespace
}  // namespace orrery::estimates

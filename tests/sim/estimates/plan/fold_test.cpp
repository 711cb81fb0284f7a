#include "sim/estimates/plan/fold.hpp"

#include <gtest/gtest.h>

#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

struct Ground {
  explicit Ground(const LoadedScenario& loaded)
      : cluster(build_cluster(loaded.scenario.cluster(), loaded.places)),
        graph(loaded.scenario.job()), shares(graph.data(), 8) {
    for (std::uint32_t i = 0; i < graph.ranks(); ++i) placement.push_back({i});
  }
  Folding fold(const HardwareState& state) {
    return fold_replicas({.cluster = cluster, .graph = graph, .profile = profile,
                          .placement = placement, .state = state, .micro_batches = shares});
  }
  CostProfile profile = cost_profile("H100");
  Cluster cluster;
  StepGraph graph;
  std::vector<GpuId> placement;
  std::vector<std::uint32_t> shares;
};

TEST(Fold, SlowReplicaAloneStandsApartWhereAllShareOneCommunicator) {
  Ground ground(testing::small_scenario(1, 1, 32));
  HardwareState state;
  EXPECT_EQ(ground.fold(state).classes.size(), 1u);
  state.slow[7] = 2;
  const Folding folding = ground.fold(state);
  ASSERT_EQ(folding.classes.size(), 2u);
  EXPECT_EQ(folding.classes[1].members, std::vector<std::uint32_t>{7});
}

/// Shard groups of 8: the slow one, the others of its group, those who hold the same share in
/// the other groups, and the rest.
TEST(Fold, PartnersOfASlowReplicaStandApartGroupByGroup) {
  Ground ground(testing::small_scenario(
      1, 1, 32, {}, {"job.layout.shard=parameters", "job.layout.shard_group=8"}));
  HardwareState state;
  EXPECT_EQ(ground.fold(state).classes.size(), 1u);
  state.slow[10] = 2;
  const Folding folding = ground.fold(state);
  ASSERT_EQ(folding.classes.size(), 4u);
  EXPECT_EQ(folding.classes[folding.class_of[10]].members, std::vector<std::uint32_t>{10});
  EXPECT_EQ(folding.classes[folding.class_of[8]].members.size(), 7u);
  EXPECT_EQ(folding.classes[folding.class_of[2]].members,
            (std::vector<std::uint32_t>{2, 18, 26}));
  EXPECT_EQ(folding.classes[folding.class_of[0]].members.size(), 21u);
}

TEST(Fold, LayersGoAtThePaceOfTheSlowestMember) {
  Ground ground(testing::small_scenario(4, 1, 4));
  HardwareState state;
  EXPECT_EQ(slowest_beside(ground.graph, state, {0}), 1);
  state.slow[6] = 3;
  EXPECT_EQ(slowest_beside(ground.graph, state, {4}), 3);
  EXPECT_EQ(slowest_beside(ground.graph, state, {8}), 1);
}

}  // namespace
}  // namespace orrery::estimates

#include "sim/planning/placed_steps.hpp"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "topologies/builder.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::sim {
namespace {

LoadedScenario scenario_of_units(const std::string& layout, int nodes) {
  return parse_scenario(R"(
name: placed
cluster: {preset: dgx-h100, nodes: )" +
                            std::to_string(nodes) + R"(}
job: {model: {preset: llama3-70b}, sequence_length: 8192, global_batch: 252, stack: nemo,
      layout: {)" + layout + R"(, order: pipeline-last, shard: optimizer}}
run: {steps: 1}
)",
                        "<test>", {});
}

std::vector<std::uint32_t> first_nodes(std::uint32_t count) {
  std::vector<std::uint32_t> nodes(count);
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

TEST(PlacedSteps, ASpareInTheSameUnitCostsNothing) {
  const LoadedScenario loaded = scenario_of_units("tensor: 8, data: 63", 64);
  const Cluster cluster = build_cluster(loaded.scenario.cluster(), {});
  PlacedSteps steps(loaded.scenario.job(), cluster);
  EXPECT_DOUBLE_EQ(steps.slowdown(first_nodes(63)), 1);
  std::vector<std::uint32_t> nodes = first_nodes(63);
  nodes[40] = 63;  // nodes 32 to 63 are a unit
  EXPECT_NEAR(steps.slowdown(nodes), 1, 1e-9);
}

/// The ring comes back to node 32 of the second unit over spine 0, which its first way also takes.
TEST(PlacedSteps, TwoFlowsOfARingShareALink) {
  const LoadedScenario loaded = scenario_of_units("tensor: 8, data: 63", 96);
  const Cluster cluster = build_cluster(loaded.scenario.cluster(), {});
  PlacedSteps steps(loaded.scenario.job(), cluster);
  std::vector<std::uint32_t> apart = first_nodes(63);
  apart[5] = 70;  // over spine 6 to node 70, and back to node 6
  EXPECT_NEAR(steps.slowdown(apart), 1, 0.01);
  std::vector<std::uint32_t> shared = first_nodes(63);
  shared[5] = 64;  // node 64 is reached over spine 0, as is node 32 from the same unit
  const double once = steps.slowdown(shared);
  EXPECT_GT(once, 1.05);
  shared[20] = 64 + 32 - 1;
  EXPECT_NEAR(steps.slowdown(shared), once, 0.02) << "another class of nodes with the same flows";
}

TEST(PlacedSteps, NodesThatMakeNoDifferenceHaveNoSlowdown) {
  const LoadedScenario loaded = scenario_of_units("tensor: 8, data: 28", 32);
  const Cluster one_unit = build_cluster(loaded.scenario.cluster(), {});
  EXPECT_FALSE(slowdown_of(loaded.scenario.job(), one_unit, 28));
  const LoadedScenario full = scenario_of_units("tensor: 8, data: 63", 63);
  EXPECT_FALSE(slowdown_of(full.scenario.job(), build_cluster(full.scenario.cluster(), {}), 63));
  const LoadedScenario spare = scenario_of_units("tensor: 8, data: 63", 64);
  EXPECT_TRUE(slowdown_of(spare.scenario.job(), build_cluster(spare.scenario.cluster(), {}), 63));
}

}  // namespace
}  // namespace orrery::sim

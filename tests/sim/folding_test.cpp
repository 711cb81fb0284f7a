// Folded against full detail up to 256 GPUs: schedules and kinds of sharding, stragglers, degraded
// links, somebody else's traffic, a link that changes in the middle of a step.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/engine/simgrid_engine.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::sim {
namespace {

using testing::numbers_in_child;
using testing::small_scenario;

struct Case {
  const char* name;
  int tensor, pipeline, data;
  std::vector<std::string> overrides;
  double slow = 1, link_slow = 1;  ///< faults of rank 5 and of its NIC
  double tolerance = 0.005;        ///< 1e-9: symmetric
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

/// Duration of a step, and how many classes were simulated.
std::vector<double> step_of(const Case& of, bool full_detail) {
  return numbers_in_child([&] {
    const LoadedScenario loaded =
        small_scenario(of.tensor, of.pipeline, of.data, {}, of.overrides);
    const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
    StepGraph graph(loaded.scenario.job());
    std::vector<GpuId> placement;
    for (std::uint32_t i = 0; i < graph.ranks(); ++i) placement.push_back({i});
    estimates::HardwareState state;
    if (of.slow != 1) state.slow[5] = of.slow;
    if (of.link_slow != 1) {
      const NodeId node = cluster.node_of({5});
      state.link_slow[cluster.nic_out(node, 5).value] = of.link_slow;
      state.link_slow[cluster.nic_in(node, 5).value] = of.link_slow;
    }
    estimates::Stepper stepper(cluster, graph, placement, {.full_detail = full_detail},
                               simgrid_engine);
    const std::vector<std::uint32_t> shares(graph.data(), graph.micro_batches() / graph.data());
    const auto step = stepper.step(state, shares);
    return std::vector<double>{step->run.duration, double(step->plan.classes.size())};
  });
}

class Folding : public ::testing::TestWithParam<Case> {};

TEST_P(Folding, StepIsAsLongAsInFullDetail) {
  const Case& of = GetParam();
  const auto folded = step_of(of, false), full = step_of(of, true);
  EXPECT_NEAR(folded[0], full[0], of.tolerance * full[0] + 2e-9);
  EXPECT_EQ(full[1], of.data);
  if (of.slow == 1 && of.link_slow == 1) {
    EXPECT_LE(folded[1], 2);
  } else {
    EXPECT_GE(folded[1], 2);
    EXPECT_LE(folded[1], 8);
  }
}

const std::string kSharded = "job.layout.shard=parameters";
const std::string kFew = "job.bucket=512 MiB";

INSTANTIATE_TEST_SUITE_P(
    Cases, Folding,
    ::testing::Values(
        Case{"256 GPUs", 8, 4, 8, {kFew}},
        Case{"256 GPUs, straggler", 8, 4, 8, {kFew}, 2},
        Case{"256 GPUs, degraded link", 8, 4, 8, {kFew}, 1, 8},
        Case{"256 GPUs, both", 8, 4, 8, {kFew}, 1.5, 4},
        Case{"interleaved", 4, 4, 4, {"job.layout.chunks=2"}},
        Case{"interleaved, straggler", 4, 4, 4, {"job.layout.chunks=2"}, 2},
        Case{"zero bubble", 4, 4, 4, {"job.layout.schedule=zero-bubble"}},
        Case{"sharded, one a node", 8, 1, 16, {kSharded}, 1, 1, 1e-9},
        Case{"sharded, straggler", 8, 1, 16, {kSharded}, 2},
        Case{"sharded, degraded link", 8, 1, 16, {kSharded}, 1, 8},
        Case{"HSDP, straggler", 8, 1, 16, {kSharded, "job.layout.shard_group=4"}, 2},
        Case{"sharded optimizer", 8, 2, 8, {"job.layout.shard=optimizer"}},
        Case{"sharded optimizer, straggler", 8, 2, 8, {"job.layout.shard=optimizer"}, 2}));

// ---- unequal traffic ----------------------------------------------------------------------------

/// Ends of the passes by replica and stage, and the number of simulated classes, of four replicas
/// of two stages in a node with two micro-batches each.
std::vector<double> passes_of(CollectiveAlgorithm algorithm, bool full_detail) {
  return numbers_in_child([=] {
    const LoadedScenario loaded = small_scenario(1, 2, 4);
    const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
    StepGraph graph(loaded.scenario.job());
    std::vector<GpuId> placement;
    for (std::uint32_t i = 0; i < graph.ranks(); ++i) placement.push_back({i});
    estimates::Stepper stepper(cluster, graph, placement,
                               {.full_detail = full_detail, .algorithm = algorithm},
                               simgrid_engine);
    const auto step = stepper.step({}, std::vector<std::uint32_t>(graph.data(), 2));
    std::vector<double> numbers;
    for (const std::uint32_t of_class : step->plan.class_of) {
      for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
        const std::uint32_t worker = of_class * graph.pipeline() + stage;
        numbers.push_back(step->run.workers[worker].passes_end);
      }
    }
    numbers.push_back(static_cast<double>(step->plan.classes.size()));
    return numbers;
  });
}

/// The inner replicas of a tree send and receive more gradients than the outer ones while they
/// exchange activations; in a ring all are alike.
TEST(FoldingOfUnequalTraffic, ReplicasOfATreeEndTheirPassesAsInFullDetail) {
  for (const auto& [algorithm, classes] :
       {std::pair{CollectiveAlgorithm::ring, 1}, std::pair{CollectiveAlgorithm::tree, 2}}) {
    std::vector<double> folded = passes_of(algorithm, false), full = passes_of(algorithm, true);
    EXPECT_EQ(folded.back(), classes);
    EXPECT_EQ(full.back(), 4);
    folded.pop_back(), full.pop_back();
    ASSERT_EQ(folded.size(), full.size());
    for (std::size_t i = 0; i < full.size(); ++i) EXPECT_NEAR(folded[i], full[i], 1e-9) << i;
    EXPECT_EQ(full[0] + 1e-6 < full[2], classes > 1) << "an inner replica is later";
  }
}

// ---- during a step ------------------------------------------------------------------------------

/// Rank 5's NIC gets busy with 200 MB of others, or has a fifth of its bandwidth, at a third of
/// the step.
std::vector<double> disturbed(bool full_detail, bool background) {
  return numbers_in_child([=] {
    const LoadedScenario loaded = small_scenario(8, 2, 8, {}, {});
    const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
    StepGraph graph(loaded.scenario.job());
    const estimates::CostProfile profile = estimates::cost_profile("H100");
    std::vector<GpuId> placement;
    for (std::uint32_t i = 0; i < graph.ranks(); ++i) placement.push_back({i});
    const std::vector<std::uint32_t> shares(graph.data(), 8);
    const estimates::BlockGroups groups = estimates::block_groups(graph, cluster, placement);
    std::vector<estimates::BlockPrice> prices;
    for (const Block& block : graph.blocks()) {
      prices.push_back(
          estimates::price(block, cluster.gpu_model(), Precision::bf16, groups, profile));
    }
    const estimates::HardwareState state;
    const LinkId nic = cluster.nic_out({0}, 5);
    const estimates::Plan plan = estimates::make_plan({.cluster = cluster,
                                                       .graph = graph,
                                                       .profile = profile,
                                                       .placement = placement,
                                                       .state = state,
                                                       .micro_batches = shares,
                                                       .full_detail = full_detail,
                                                       .apart = {{5}},
                                                       .pinned = {nic}});
    SimGridEngine engine(estimates::hosts_needed(graph), 4096);
    const auto run = [&](std::vector<estimates::TimedChange> changes,
                         std::vector<estimates::Background> others) {
      return estimates::run_iteration({.engine = engine,
                                       .graph = graph,
                                       .plan = plan,
                                       .prices = prices,
                                       .state = state,
                                       .changes = std::move(changes),
                                       .background = std::move(others)})
          .duration;
    };
    const double calm = run({}, {});
    estimates::TimedChange change;
    change.at = 0.9 * calm;
    change.bandwidth = {{nic, estimates::link_rate(cluster, profile, nic) / 5}};
    const double hit = background ? run({}, {{nic, 0.8 * calm, 2e8}}) : run({change}, {});
    return std::vector<double>{calm, hit, double(plan.classes.size())};
  });
}

TEST(FoldingDuringAStep, OthersTrafficIsSharedAlike) {
  const auto folded = disturbed(false, true), full = disturbed(true, true);
  EXPECT_GT(folded[1], folded[0] * 1.01);
  EXPECT_NEAR(folded[1], full[1], 0.005 * full[1]);
  EXPECT_EQ(folded[2], 2);
  EXPECT_EQ(full[2], 8);
}

TEST(FoldingDuringAStep, LinkThatSlowsDownSlowsBothAlike) {
  const auto folded = disturbed(false, false), full = disturbed(true, false);
  EXPECT_GT(folded[1], folded[0] * 1.01);
  EXPECT_NEAR(folded[1], full[1], 0.005 * full[1]);
}

}  // namespace
}  // namespace orrery::sim

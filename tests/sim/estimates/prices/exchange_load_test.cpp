#include "sim/estimates/prices/exchange_load.hpp"

#include <map>
#include <utility>

#include <gtest/gtest.h>

#include "sim/estimates/plan/in_order.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "tests/sim/run.hpp"
#include "tests/traces/small_job.hpp"
#include "topologies/builder.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery::estimates {
namespace {

using enum OpCollective;

Cluster nodes_of_eight(int gpus) {
  const LoadedScenario loaded = testing::small_scenario(1, 1, gpus);
  return build_cluster(loaded.scenario.cluster(), loaded.places);
}

Job sharded_job(Sharding sharding, std::uint32_t replicas, std::uint32_t global_batch) {
  Job job = small_job(1, 1, replicas, global_batch);
  set_sharding(*job.mutable_layout(), sharding);
  job.mutable_overlaps()->set_parameters(true);
  return job;
}

using Sums = std::map<std::pair<Communicator, OpCollective>, double>;

Sums exchanged(const StepGraph& graph, std::uint32_t stage) {
  Sums sums;
  for (const Exchange& each : exchanges_beside(graph, stage)) {
    sums[{each.communicator, each.collective}] += each.bytes.value;
  }
  return sums;
}

/// Bytes of the collectives in the program of a stage.
Sums in_program(StepGraph& graph, std::uint32_t stage) {
  Sums sums;
  for (const Op& op : graph.program(stage, graph.micro_batches() / graph.data()).ops) {
    if (op.kind == OpKind::collective) sums[{op.communicator, op.collective}] += op.bytes.value;
  }
  return sums;
}

void expect_those_of_the_program(const Job& job, const std::string& what) {
  StepGraph graph(job);
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    const Sums found = exchanged(graph, stage), there = in_program(graph, stage);
    ASSERT_EQ(found.size(), there.size()) << what;
    EXPECT_FALSE(found.empty()) << what;
    for (const auto& [key, bytes] : there) {
      EXPECT_NEAR(found.at(key) / bytes, 1, 1e-9) << what << ", stage " << stage;
    }
  }
}

TEST(ExchangeLoad, ExchangesAreTheCollectivesOfTheProgram) {
  for (const Sharding sharding : {Sharding::nothing, Sharding::optimizer, Sharding::gradients,
                                  Sharding::parameters}) {
    for (const std::uint32_t batch : {16u, 64u}) {
      Job job = sharded_job(sharding, 16, batch);
      const std::string what =
          std::to_string(static_cast<int>(sharding)) + ", batch " + std::to_string(batch);
      expect_those_of_the_program(job, what);
      if (sharding == Sharding::nothing) continue;
      job.mutable_layout()->set_shard_group(8);
      expect_those_of_the_program(job, what + ", groups of eight");
    }
  }
}

TEST(ExchangeLoad, ParametersGatheredAfterTheUpdateAreNotBesideComputation) {
  Job job = sharded_job(Sharding::optimizer, 16, 16);
  job.mutable_overlaps()->set_parameters(false);
  const Sums found = exchanged(StepGraph(job), 0);
  EXPECT_EQ(found.size(), 1u);
  EXPECT_TRUE(found.contains({Communicator::shard, reduce_scatter}));
}

TEST(ExchangeLoad, NothingIsBesideComputationWithoutOverlap) {
  Job job = sharded_job(Sharding::optimizer, 16, 16);
  EXPECT_FALSE(exchanges_beside(StepGraph(job), 0).empty());
  job.set_overlap(false);
  EXPECT_TRUE(exchanges_beside(StepGraph(job), 0).empty());
  EXPECT_TRUE(exchanges_beside(StepGraph(sharded_job(Sharding::optimizer, 1, 16)), 0).empty())
      << "nothing to exchange";
}

TEST(ExchangeLoad, TimeIsTheSumOverCollectivesAtTheirPrices) {
  const StepGraph graph(sharded_job(Sharding::optimizer, 16, 16));
  const double parameters = graph.parameters(0).dense;
  EXPECT_GT(parameters, 1e8);
  const auto price = [](std::uint32_t, Communicator which, OpCollective kind) {
    EXPECT_EQ(which, Communicator::shard);
    return kind == all_gather ? 3e-12 : 1e-12;
  };
  EXPECT_NEAR(exchange_time(graph, 0, price).value, parameters * 2 * 4e-12, 1e-12);
}

/// The price of plans is that of the walk, which lays out a few units only.
TEST(ExchangeLoad, PlansAndTheWalkPriceAnExchangeAlike) {
  for (const auto& [gpus, group] : {std::pair{8, 0u}, {16, 0u}, {64, 0u}, {64, 8u}, {64, 16u}}) {
    Job job = sharded_job(Sharding::optimizer, static_cast<std::uint32_t>(gpus), 64);
    if (group > 0) job.mutable_layout()->set_shard_group(group);
    StepGraph graph(job);
    const Cluster cluster = nodes_of_eight(gpus);
    const CostProfile profile = cost_profile("H100");
    std::vector<GpuId> placement;
    for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) placement.push_back({rank});
    PlanBase base(cluster, graph, profile, placement);
    const ExchangePrice planned = planned_exchanges(base);
    InOrder ground(graph, cluster);
    for (const Exchange& each : exchanges_beside(graph, 0)) {
      const InOrder::Rings rings = ground.rings(profile, 0, each.communicator);
      const std::uint32_t among = graph.communicator_size(each.communicator);
      const double share =
          (each.collective == all_reduce ? ring_all_reduce(among) : ring_half(among)).share;
      const double walked = share / rings.channels * rings.each;
      EXPECT_GT(walked, 0);
      EXPECT_NEAR(planned(0, each.communicator, each.collective) / walked, 1, 1e-9)
          << gpus << " GPUs in groups of " << group;
    }
  }
}

TEST(ExchangeLoad, NothingLeavesANodeFasterThanInsideIt) {
  const auto price = [](std::uint32_t gpus) {
    StepGraph graph(sharded_job(Sharding::optimizer, gpus, 16));
    const Cluster cluster = nodes_of_eight(static_cast<int>(gpus));
    const CostProfile profile = cost_profile("H100");
    std::vector<GpuId> placement;
    for (std::uint32_t rank = 0; rank < gpus; ++rank) placement.push_back({rank});
    PlanBase base(cluster, graph, profile, placement);
    return exchange_time(graph, 0, planned_exchanges(base)).value;
  };
  EXPECT_GT(price(8), 0);
  EXPECT_LT(price(8), price(16));
}

TEST(ExchangeLoad, OnlyComputationThatTheStepWaitsForBecomesLonger) {
  const StepGraph graph(sharded_job(Sharding::optimizer, 16, 16));
  const ExchangePrice price = [](std::uint32_t, Communicator, OpCollective) { return 1e-11; };
  const double exchange = exchange_time(graph, 0, price).value;
  const auto load = [&](double beside, double computed) {
    std::vector<BlockPrice> prices(graph.blocks().size());
    prices[graph.pass_blocks(0).front()].compute = {computed};
    return exchange_load(graph, beside, prices, price).value;
  };
  EXPECT_EQ(load(0, 2 * exchange), 0) << "no part by default";
  EXPECT_NEAR(load(0.25, 2 * exchange), exchange / 4, 1e-12);
  EXPECT_NEAR(load(0.25, 0.9 * exchange), 0.15 * exchange, 1e-12) << "1.15 instead of 1";
  EXPECT_EQ(load(0.25, exchange / 2), 0) << "the exchange ends later anyway";
}

}  // namespace
}  // namespace orrery::estimates

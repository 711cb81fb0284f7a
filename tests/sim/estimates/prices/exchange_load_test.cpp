#include "sim/estimates/prices/exchange_load.hpp"

#include <gtest/gtest.h>

#include "tests/sim/run.hpp"
#include "tests/traces/small_job.hpp"
#include "topologies/builder.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery::estimates {
namespace {

Cluster two_nodes() {
  const LoadedScenario loaded = testing::small_scenario(1, 1, 16);
  return build_cluster(loaded.scenario.cluster(), loaded.places);
}

Job sharded_job(Sharding sharding, std::uint32_t replicas, std::uint32_t global_batch) {
  Job job = small_job(1, 1, replicas, global_batch);
  set_sharding(*job.mutable_layout(), sharding);
  job.mutable_overlaps()->set_parameters(true);
  return job;
}

double seconds_of(const Job& job) {
  return exchange_beside(StepGraph(job), 0, two_nodes(), cost_profile("H100")).value;
}

TEST(ExchangeLoad, GradientsAndParametersGoRoundOverTheNicsOfANode) {
  const StepGraph graph(sharded_job(Sharding::optimizer, 16, 16));
  const Cluster cluster = two_nodes();
  CostProfile profile = cost_profile("H100");
  profile.network = 0.5;  // slower than NVLink's ring
  const Cluster::Shape& shape = cluster.shape();
  const double node = shape.nic_bandwidth.value * shape.nics_per_node * profile.network;
  const double bytes = graph.parameters(0).dense * (2 + 2) * 15 / 16;
  EXPECT_GT(graph.parameters(0).dense, 1e8);
  EXPECT_NEAR(exchange_beside(graph, 0, cluster, profile).value, bytes / node, 1e-12);
}

TEST(ExchangeLoad, NothingLeavesANodeFasterThanInsideIt) {
  const double inside = seconds_of(sharded_job(Sharding::optimizer, 8, 8));
  EXPECT_GT(inside, 0);
  EXPECT_LT(inside, seconds_of(sharded_job(Sharding::optimizer, 16, 16)));
}

TEST(ExchangeLoad, ShardedParametersAreExchangedForEachMicroBatch) {
  const double once = seconds_of(sharded_job(Sharding::parameters, 16, 16));
  EXPECT_NEAR(seconds_of(sharded_job(Sharding::parameters, 16, 64)), 4 * once, 1e-12);
  EXPECT_NEAR(once, 1.5 * seconds_of(sharded_job(Sharding::optimizer, 16, 16)), 1e-12)
      << "gathered twice";
}

TEST(ExchangeLoad, NothingIsBesideComputationWithoutOverlap) {
  Job job = sharded_job(Sharding::optimizer, 16, 16);
  job.set_overlap(false);
  EXPECT_EQ(seconds_of(job), 0);
  EXPECT_EQ(seconds_of(sharded_job(Sharding::optimizer, 1, 16)), 0) << "nothing to exchange";
}

TEST(ExchangeLoad, OnlyComputationThatTheStepWaitsForBecomesLonger) {
  const StepGraph graph(sharded_job(Sharding::optimizer, 16, 16));
  const Cluster cluster = two_nodes();
  CostProfile profile = cost_profile("H100");
  const double exchange = exchange_beside(graph, 0, cluster, profile).value;
  const auto load = [&](double computed) {
    std::vector<BlockPrice> prices(graph.blocks().size());
    prices[graph.pass_blocks(0).front()].compute = {computed};
    return exchange_load(graph, cluster, profile, prices).value;
  };
  EXPECT_EQ(load(2 * exchange), 0) << "no part by default";
  profile.beside = 0.25;
  EXPECT_NEAR(load(2 * exchange), exchange / 4, 1e-12);
  EXPECT_NEAR(load(0.9 * exchange), 0.15 * exchange, 1e-12) << "1.15 instead of 1";
  EXPECT_EQ(load(exchange / 2), 0) << "the exchange ends later anyway";
}

}  // namespace
}  // namespace orrery::estimates

#include "sim/estimates/predict/collective_interval.hpp"

#include <cstdint>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/collectives/protocols.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

Cluster nodes_of(const std::string& gpu, std::uint32_t nodes) {
  Topology topology;
  topology.set_nodes(nodes);
  NodeSpec& node = *topology.mutable_node();
  node.set_gpu(gpu);
  node.set_gpus_per_node(8);
  node.set_nics_per_node(8);
  node.set_nic_bandwidth(50e9);
  topology.mutable_fabric()->set_kind("flat");
  resolve(topology, {}, "cluster");
  return build_cluster(topology, {}, "cluster");
}

/// All-reduce among all GPUs.
CollectiveCall all_reduce(const Cluster& cluster, double bytes) {
  return {.kind = CollectiveKind::all_reduce,
          .algorithm = CollectiveAlgorithm::automatic,
          .ranks = cluster.gpus(),
          .size = {bytes}};
}

double price_of(const Cluster& cluster, const CollectiveCall& call) {
  GpuGroup members;
  for (std::uint32_t rank = 0; rank < call.ranks; ++rank) members.push_back({rank});
  const CostProfile profile = cost_profile(cluster.gpu_model());
  const CollectiveAlgorithm algorithm =
      choose_nccl_algorithm(cluster, profile, call.kind, {members}, call.size);
  return price_protocols(cluster, profile, call.kind,
                         collective_schedule(cluster, call.kind, algorithm, {members}), call.size)
      .alone.value;
}

// Sources: nccl-tests on Azure, vidur, aiconfigurator; 8 GPUs, 1 MiB.
TEST(CollectiveInterval, PriceLiesBetweenSourcesThatDifferAndTheIntervalCoversThem) {
  for (const auto& [gpu, lowest, highest] :
       {std::tuple("H100", 25.4e-6, 42.0e-6), std::tuple("A100-80GB", 38.9e-6, 64.0e-6)}) {
    const Cluster cluster = nodes_of(gpu, 1);
    const CollectiveCall call = all_reduce(cluster, kMiB);
    const double price = price_of(cluster, call);
    EXPECT_GT(price, lowest) << gpu;
    EXPECT_LT(price, highest) << gpu;
    const Interval interval = collective_interval(cluster, call, price);
    EXPECT_LE(interval.p10_s, lowest) << gpu;
    EXPECT_GE(interval.p90_s, highest) << gpu;
  }
}

TEST(CollectiveInterval, WiderProbabilitiesContainNarrowerOnes) {
  for (const std::uint32_t nodes : {1u, 4u}) {
    const Cluster cluster = nodes_of("H100", nodes);
    for (double bytes = 1024; bytes < 1e11; bytes *= 8) {
      const CollectiveCall call = all_reduce(cluster, bytes);
      const double price = price_of(cluster, call);
      const Interval of = collective_interval(cluster, call, price);
      EXPECT_LT(0, of.p2_5_s);
      EXPECT_LT(of.p2_5_s, of.p10_s);
      EXPECT_LT(of.p10_s, price);
      EXPECT_LT(price, of.p90_s);
      EXPECT_LT(of.p90_s, of.p97_5_s);
    }
  }
}

TEST(CollectiveInterval, SharedLinksStretchTheIntervalWithTheTime) {
  const Cluster cluster = nodes_of("H100", 2);
  const CollectiveCall call = all_reduce(cluster, 64 * kMiB);
  const double price = price_of(cluster, call);
  const Interval alone = collective_interval(cluster, call, price);
  const Interval shared = collective_interval(cluster, call, 3 * price);
  EXPECT_DOUBLE_EQ(shared.p90_s, 3 * alone.p90_s);
}

TEST(CollectiveInterval, SaysWhetherTheGpusCollectivesWereMeasured) {
  const Cluster measured = nodes_of("H100", 2), transferred = nodes_of("MI355X", 1);
  const Interval known = collective_interval(measured, all_reduce(measured, 1e9), 1);
  EXPECT_EQ(known.distance, "measured collectives between domains");
  EXPECT_EQ(known.state, PredictionState::measured);
  const Interval unknown = collective_interval(transferred, all_reduce(transferred, 1e9), 1);
  EXPECT_EQ(unknown.distance, "transferred collectives in a domain");
  EXPECT_EQ(unknown.state, PredictionState::transferred);
}

}  // namespace
}  // namespace orrery::estimates

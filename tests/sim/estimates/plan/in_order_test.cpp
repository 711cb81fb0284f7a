#include "sim/estimates/plan/in_order.hpp"

#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "sim/estimates/engine/free_engine.hpp"
#include "sim/estimates/predict/estimate.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "tests/traces/small_job.hpp"
#include "topologies/builder.hpp"

namespace orrery::estimates {
namespace {

/// Every rank looked at, every event carried out.
double looked_at_one_by_one(const Job& job, const Cluster& cluster) {
  StepGraph graph(job);
  std::vector<GpuId> placement;
  for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) placement.push_back({rank});
  Stepper stepper(cluster, graph, placement, {}, free_engine);
  const std::uint32_t share = graph.micro_batches() / graph.data();
  return stepper.step({}, std::vector<std::uint32_t>(graph.data(), share))->run.duration;
}

/// ORRERY_CONFIGURATIONS asks for more.
int random_jobs() {
  const char* const asked = std::getenv("ORRERY_CONFIGURATIONS");
  return asked == nullptr ? 400 : std::atoi(asked);
}

std::uint32_t one_of(Rng& random, std::initializer_list<std::uint32_t> values) {
  return *(values.begin() + random.below(values.size()));
}

/// Small nodes, domains and units, so that jobs of a few hundred GPUs cross many of them.
Cluster random_cluster(Rng& random, std::uint32_t gpus) {
  const std::uint32_t each = one_of(random, {2, 4, 6, 8}), kind = one_of(random, {0, 0, 0, 1, 2});
  const FabricKind fabric = kind == 0   ? FabricKind::fat_tree
                            : kind == 1 ? FabricKind::flat
                                        : FabricKind::ring;
  Topology topology;
  topology.set_preset("dgx-h100");
  topology.set_nodes(1);
  resolve(topology, {});
  const GpuModel gpu = build_cluster(topology, {}).gpu_model();
  return Cluster(gpu,
                 {.nodes = (gpus + each - 1) / each + one_of(random, {0, 0, 1, 5}),
                  .gpus_per_node = each,
                  .nics_per_node = each / one_of(random, {1, 1, 2}),
                  .nodes_per_unit = one_of(random, {2, 3, 4}),
                  .spines = one_of(random, {1, 2, 3}),
                  .nic_bandwidth = {5e10},
                  .spine_link_bandwidth = {one_of(random, {1, 2}) * 2.5e10},
                  .nvlink_latency = {1e-6},
                  .nic_latency = {5e-6},
                  .hop_latency = {1e-6},
                  .host_power = {1000},
                  .nodes_per_domain = one_of(random, {1, 1, 1, 2}),
                  .fabric = fabric},
                 {});
}

Job random_job(Rng& random) {
  const std::uint32_t data = one_of(random, {1, 2, 3, 4, 6, 8, 16, 17, 32, 64});
  Job job = small_job(one_of(random, {1, 2, 4, 8}), one_of(random, {1, 2, 3, 4}), data,
                      data * one_of(random, {1, 2, 5}));
  Layout& layout = *job.mutable_layout();
  layout.set_context(one_of(random, {1, 1, 2, 4}));
  layout.set_order(random.below(3) == 0 ? "data-last" : "pipeline-last");
  constexpr const char* kShards[] = {"nothing", "optimizer", "gradients", "parameters"};
  layout.set_shard(kShards[random.below(4)]);
  const std::uint32_t peers = data * layout.context();
  if (peers % 4 == 0 && random.below(3) == 0) layout.set_shard_group(peers / 2);
  if (layout.pipeline() == 2 && random.below(2) == 0) layout.set_chunks(2);
  if (layout.chunks() < 2 && random.below(4) == 0) layout.set_schedule("zero-bubble");
  job.set_overlap(random.below(2) == 0);
  job.mutable_overlaps()->set_parameters(random.below(2) == 0);
  return job;
}

TEST(InOrder, AFewRanksShowWhatAllOfThemDo) {
  Rng random(20261122);
  int several_classes = 0, many_units = 0;
  for (int i = 0; i < random_jobs(); ++i) {
    const Job job = random_job(random);
    const StepGraph graph(job);
    const Cluster cluster = random_cluster(random, graph.ranks());
    const double all = looked_at_one_by_one(job, cluster);
    ASSERT_NEAR(estimate_step(job, cluster).step_s / all, 1, 1e-9)
        << i << "\n" << job.layout().DebugString() << cluster.shape().nodes << " x "
        << cluster.shape().gpus_per_node;
    several_classes += InOrder(graph, cluster).classes() > 1;
    many_units += cluster.units() > 6;
  }
  EXPECT_GT(several_classes, 20);
  EXPECT_GT(many_units, 20);
}

TEST(InOrder, GroupsOfBlocksAreThoseOfAllRanks) {
  Rng random(7);
  for (int i = 0; i < random_jobs(); ++i) {
    const Job job = random_job(random);
    const StepGraph graph(job);
    const Cluster cluster = random_cluster(random, graph.ranks());
    std::vector<GpuId> placement;
    for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) placement.push_back({rank});
    const BlockGroups all = block_groups(graph, cluster, placement);
    const BlockGroups shown = InOrder(graph, cluster).block_groups();
    for (const Communicator which :
         {Communicator::tensor, Communicator::context, Communicator::expert}) {
      EXPECT_EQ(shown.of(which).size, all.of(which).size);
      EXPECT_EQ(shown.of(which).per_node, all.of(which).per_node) << i;
    }
  }
}

}  // namespace
}  // namespace orrery::estimates

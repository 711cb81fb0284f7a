#include "sim/estimates/collectives/flow_counter.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/sim/small_cluster.hpp"

namespace orrery::estimates {
namespace {

std::vector<LinkLoad> one_by_one(const Cluster& cluster, const GpuGroup& group) {
  FlowCounter counter(cluster);
  for (const GpuId from : group) {
    for (const GpuId to : group) counter.add_flows(from, to);
  }
  return counter.drain_loads();
}

TEST(FlowCounter, CountsAscendingAndStartsAnew) {
  const Cluster cluster = testing::small_cluster({});
  FlowCounter counter(cluster);
  counter.add_flows({0}, {1});
  counter.add_flows({2}, {1}, 3);
  EXPECT_EQ(counter.drain_loads(), (std::vector<LinkLoad>{{cluster.nvlink_out({0}), 1},
                                                   {cluster.nvlink_out({2}), 3},
                                                   {cluster.nvlink_in({1}), 4}}));
  EXPECT_TRUE(counter.drain_loads().empty());
}

// Property for every cluster and group: counting by place equals counting pair by pair.
RC_GTEST_PROP(FlowCounter, AllPairsAreEveryPair, ()) {
  Cluster::Shape shape = testing::small_cluster({}).shape();
  shape.nodes = *rc::gen::inRange(1u, 13u);
  shape.gpus_per_node = *rc::gen::element(1u, 2u, 4u);
  shape.nics_per_node = *rc::gen::element(1u, shape.gpus_per_node);
  shape.nodes_per_unit = *rc::gen::inRange(1u, 7u);
  shape.spines = *rc::gen::inRange(1u, 4u);
  shape.nodes_per_domain = *rc::gen::element(1u, 2u, 3u);
  shape.fabric = *rc::gen::element(FabricKind::fat_tree, FabricKind::flat, FabricKind::ring,
                                   FabricKind::torus, FabricKind::dragonfly);
  shape.units_per_pod = *rc::gen::inRange(0u, 4u);
  shape.cores = *rc::gen::inRange(1u, 4u);
  if (shape.fabric != FabricKind::fat_tree) shape.units_per_pod = 0;
  shape.torus = {shape.nodes, 1, 1};
  shape.routers_per_group = *rc::gen::inRange(1u, 4u);
  shape.nodes_per_router = *rc::gen::inRange(1u, 4u);
  const Cluster cluster(testing::small_cluster({}).gpu_model(), shape, {});
  GpuGroup group;
  for (std::uint32_t gpu = 0; gpu < cluster.gpus(); ++gpu) {
    if (*rc::gen::inRange(0, 3) > 0) group.push_back({gpu});
  }
  FlowCounter counter(cluster);
  counter.add_all_pairs(group);
  RC_ASSERT(counter.drain_loads() == one_by_one(cluster, group));
}

}  // namespace
}  // namespace orrery::estimates

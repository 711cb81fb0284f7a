#include "live/slurm/node_map.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/live/slurm/recorded.hpp"

namespace orrery::live {
namespace {

TEST(NodeMap, NodesOfTheManagedPartitionsWithTheLargestNumberOfGpus) {
  const NodeMap all(parse_nodes(kNodesAnswer), {});
  EXPECT_EQ(all.nodes(), 3u);
  EXPECT_EQ(all.gpus_per_node(), 8u);
  const NodeMap ours(parse_nodes(kNodesAnswer), {"orrery"});
  EXPECT_EQ(ours.nodes(), 2u);
  EXPECT_FALSE(ours.find("n3"));
  EXPECT_THROW(NodeMap(parse_nodes(kNodesAnswer), {"debug"}), Error);
}

TEST(NodeMap, DrainedSilentAndMissingNodesAndMissingGpusAreLost) {
  const NodeMap map(parse_nodes(kNodesAnswer), {});
  std::vector<SlurmNode> nodes = parse_nodes(kNodesAnswer);
  std::set<Part> expected{{PartKind::node, 1}, {PartKind::node, 2}};
  for (std::uint32_t gpu = 12; gpu < 16; ++gpu) expected.insert({PartKind::gpu, gpu});
  EXPECT_EQ(map.lost_parts(nodes), expected);
  nodes.erase(nodes.begin());
  expected.insert({PartKind::node, 0});
  EXPECT_EQ(map.lost_parts(nodes), expected);
}

TEST(NodeMap, NamesAndShapesOfGpus) {
  const NodeMap map(parse_nodes(kNodesAnswer), {});
  const GpuRuns gpus{{1}, {2}, {16}, {17}};
  EXPECT_EQ(map.names_of(gpus), (std::vector<std::string>{"n1", "n3"}));
  EXPECT_TRUE(map.has_shape(gpus, 2, 2));
  EXPECT_FALSE(map.has_shape(gpus, 1, 4));
  EXPECT_FALSE(map.has_shape(GpuRuns{{1}, {2}, {3}, {17}}, 2, 2));
}

TEST(NodeMap, UnownedGpusAreTheLowestOfEachNode) {
  ClusterState state;
  state.owner.assign(16, ClusterState::kNobody);
  state.owner[8] = JobId{4};
  const auto gpus = unowned_gpus(state, {{0}, {1}}, 2, 8);
  ASSERT_TRUE(gpus);
  EXPECT_EQ(*gpus, (GpuRuns{{0}, {1}, {9}, {10}}));
  EXPECT_FALSE(unowned_gpus(state, {{0}, {1}}, 8, 8));
}

}  // namespace
}  // namespace orrery::live

#include "live/queue/node_map.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

const std::vector<QueueNode> kNodes{{"n1", 8, true}, {"n2", 4, false}, {"n3", 8, false}};

TEST(NodeMap, NodesInTheirOrderWithTheLargestNumberOfGpus) {
  const NodeMap map(kNodes);
  EXPECT_EQ(map.nodes(), 3u);
  EXPECT_EQ(map.gpus_per_node(), 8u);
  EXPECT_EQ(map.name({1}), "n2");
  EXPECT_EQ(map.find("n3"), NodeId{2});
  EXPECT_FALSE(map.find("n4"));
  EXPECT_THROW(NodeMap({}), Error);
  EXPECT_THROW(NodeMap({{"n1", 0, true}}), Error);
}

TEST(NodeMap, DrainedSilentAndMissingNodesAndMissingGpusAreLost) {
  const NodeMap map(kNodes);
  std::set<Part> expected{{PartKind::node, 1}, {PartKind::node, 2}};
  for (std::uint32_t gpu = 12; gpu < 16; ++gpu) expected.insert({PartKind::gpu, gpu});
  EXPECT_EQ(map.lost_parts(kNodes), expected);
  expected.insert({PartKind::node, 0});
  EXPECT_EQ(map.lost_parts({kNodes.begin() + 1, kNodes.end()}), expected);
}

TEST(NodeMap, APlaceWithoutANodeIsLost) {
  const NodeMap map({{"n1", 2, true}, {"", 0, false}, {"n2", 2, true}, {"", 0, false}});
  EXPECT_EQ(map.nodes(), 4u);
  EXPECT_FALSE(map.find(""));
  const std::set<Part> lost = map.lost_parts({{"n1", 2, true}, {"n2", 2, true}});
  EXPECT_TRUE(lost.contains({PartKind::node, 1}));
  EXPECT_TRUE(lost.contains({PartKind::node, 3}));
  EXPECT_FALSE(lost.contains({PartKind::node, 2}));
}

/// Two racks of two nodes with three places each, and a third rack without nodes.
NodeMap racks() {
  const QueueNode none;
  return NodeMap({{"a1", 8, true, "a"}, {"a2", 8, true, "a"}, none,
                  {"b1", 8, true, "b"}, {"b2", 4, true, "b"}, none, none, none, none},
                 3);
}

TEST(NodeMap, ANodeThatJoinsGetsAPlaceOfItsRackOrOfARackWithoutNodes) {
  NodeMap map = racks();
  EXPECT_EQ(map.nodes(), 9u);
  EXPECT_EQ(map.known_nodes(), 4u);
  EXPECT_EQ(map.largest_rack(), 2u);
  EXPECT_EQ(map.adopt({"b3", 8, true, "b"}), NodeId{5});
  EXPECT_EQ(map.find("b3"), NodeId{5});
  EXPECT_FALSE(map.adopt({"b4", 8, true, "b"})) << "its rack has no place left";
  EXPECT_EQ(map.adopt({"c1", 8, true, "c"}), NodeId{6});
  EXPECT_EQ(map.adopt({"c2", 8, true, "c"}), NodeId{7});
  EXPECT_FALSE(map.adopt({"d1", 8, true, "d"})) << "each rack has nodes";
  EXPECT_EQ(map.largest_rack(), 3u);
  EXPECT_FALSE(map.lost_parts({{"c1", 8, true, "c"}}).contains({PartKind::node, 6}));
}

TEST(NodeMap, ThePlaceOfANodeThatLeftIsForANodeOfAnyNameAndSize) {
  NodeMap map = racks();
  EXPECT_EQ(map.adopt({"b3", 8, true, "b"}), NodeId{5});
  map.release({4});
  EXPECT_FALSE(map.find("b2"));
  EXPECT_EQ(map.known_nodes(), 4u);
  EXPECT_FALSE(map.lost_parts({}).contains({PartKind::gpu, 4 * 8 + 7}));
  EXPECT_EQ(map.adopt({"b9", 6, true, "b"}), NodeId{4});
  const std::set<Part> lost = map.lost_parts({{"b9", 6, true, "b"}});
  EXPECT_FALSE(lost.contains({PartKind::node, 4}));
  EXPECT_FALSE(lost.contains({PartKind::gpu, 4 * 8 + 5}));
  EXPECT_TRUE(lost.contains({PartKind::gpu, 4 * 8 + 6}));
}

TEST(NodeMap, RacksOfGpus) {
  const NodeMap map = racks();
  EXPECT_TRUE(map.has_racks());
  EXPECT_TRUE(map.is_within_rack(GpuRuns{{0}, {8}}));
  EXPECT_FALSE(map.is_within_rack(GpuRuns{{8}, {24}}));
  EXPECT_FALSE(NodeMap(kNodes).has_racks());
  EXPECT_TRUE(NodeMap(kNodes).is_within_rack(GpuRuns{{0}, {16}}));
}

TEST(NodeMap, NamesAndShapesOfGpus) {
  const NodeMap map(kNodes);
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

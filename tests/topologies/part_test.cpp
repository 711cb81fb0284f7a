#include "topologies/part.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace orrery {
namespace {

/// 5 nodes of 4 GPUs and 2 NICs in units of 2 (the last one not full), 3 spines.
Cluster cluster(FabricKind fabric = FabricKind::fat_tree) {
  return Cluster(GpuModel{},
                 {.nodes = 5, .gpus_per_node = 4, .nics_per_node = 2, .nodes_per_unit = 2,
                  .spines = 3, .nic_bandwidth = {1}, .spine_link_bandwidth = {1},
                  .nvlink_latency = {0}, .nic_latency = {0}, .hop_latency = {0},
                  .host_power = {0}, .fabric = fabric},
                 {});
}

std::set<std::string> names(const Cluster& of, Part part) {
  std::set<std::string> names;
  for (const LinkId link : links_of(of, part)) names.insert(of.link_name(link));
  return names;
}

TEST(Part, EveryKindIsCounted) {
  const Cluster tree = cluster();
  EXPECT_EQ(count_of(tree, PartKind::gpu), 20u);
  EXPECT_EQ(count_of(tree, PartKind::node), 5u);
  EXPECT_EQ(count_of(tree, PartKind::nic), 10u);
  EXPECT_EQ(count_of(tree, PartKind::link), tree.links());
  EXPECT_EQ(count_of(tree, PartKind::leaf), 6u);
  EXPECT_EQ(count_of(tree, PartKind::spine), 3u);
  EXPECT_EQ(count_of(tree, PartKind::plane), 2u);
  EXPECT_EQ(count_of(tree, PartKind::storage), 1u);
  EXPECT_EQ(count_of(cluster(FabricKind::ring), PartKind::spine), 0u);
  EXPECT_EQ(count_of(cluster(FabricKind::flat), PartKind::leaf), 0u);
}

TEST(Part, TakesItsLinksWithIt) {
  const Cluster tree = cluster();
  EXPECT_EQ(names(tree, {PartKind::nic, 3}),
            (std::set<std::string>{"node1/nic1 out", "node1/nic1 in"}));
  EXPECT_EQ(names(tree, {PartKind::leaf, 5}),  // leaf of the last unit, which has one node
            (std::set<std::string>{"node4/nic1 out", "node4/nic1 in", "unit2/leaf1 up 0",
                                   "unit2/leaf1 up 1", "unit2/leaf1 up 2", "unit2/leaf1 down 0",
                                   "unit2/leaf1 down 1", "unit2/leaf1 down 2"}));
  EXPECT_EQ(links_of(tree, {PartKind::spine, 1}).size(), 2u * 3 * 2);
  EXPECT_EQ(links_of(tree, {PartKind::node, 2}).size(), 2u * 4 + 2 * 2);
  EXPECT_EQ(links_of(tree, {PartKind::link, 7}), std::vector<LinkId>{{7}});
  EXPECT_TRUE(links_of(tree, {PartKind::storage, 0}).empty());
}

TEST(Part, PlanesShareNoLinkAndHoldAllOfTheFabric) {
  for (const FabricKind fabric : {FabricKind::fat_tree, FabricKind::flat, FabricKind::ring}) {
    const Cluster all = cluster(fabric);
    std::set<LinkId> seen;
    std::size_t count = 0;
    for (std::uint32_t plane = 0; plane < 2; ++plane) {
      const std::vector<LinkId> links = links_of(all, {PartKind::plane, plane});
      EXPECT_TRUE(std::is_sorted(links.begin(), links.end()));
      seen.insert(links.begin(), links.end());
      count += links.size();
    }
    EXPECT_EQ(seen.size(), count);
    EXPECT_EQ(count, all.links() - 2 * all.gpus());  // all but NVLink
  }
}

TEST(Part, HasItsGpusAndAName) {
  const Cluster tree = cluster();
  EXPECT_EQ(gpus_of(tree, {PartKind::node, 1}), (std::vector<GpuId>{{4}, {5}, {6}, {7}}));
  EXPECT_EQ(gpus_of(tree, {PartKind::gpu, 6}), std::vector<GpuId>{{6}});
  EXPECT_TRUE(gpus_of(tree, {PartKind::nic, 1}).empty());
  EXPECT_EQ(part_name({PartKind::spine, 2}), "spine 2");
}

/// 4 nodes of 2 NICs in units of 2; 3 planes with 2 spines each.
Cluster planes() {
  return Cluster(GpuModel{},
                 {.nodes = 4, .gpus_per_node = 2, .nics_per_node = 2, .nodes_per_unit = 2,
                  .spines = 1, .nic_bandwidth = {3}, .spine_link_bandwidth = {6},
                  .nvlink_latency = {0}, .nic_latency = {0}, .hop_latency = {0},
                  .host_power = {0}, .transport = Transport::spray, .planes = 3, .cables = 6},
                 {});
}

TEST(Part, OfAPlaneIsAShareOfItsLinks) {
  const Cluster all = planes();
  EXPECT_EQ(count_of(all, PartKind::leaf), 2u * 2 * 3);
  EXPECT_EQ(count_of(all, PartKind::spine), 6u);
  EXPECT_EQ(count_of(all, PartKind::plane), 3u);
  EXPECT_EQ(count_of(all, PartKind::port), 4u * 2 * 3);
  EXPECT_EQ(count_of(all, PartKind::cable), 4u * 6);
  EXPECT_DOUBLE_EQ(share_of(all, PartKind::port), 1. / 3);
  EXPECT_DOUBLE_EQ(share_of(all, PartKind::cable), 1. / 6);
  EXPECT_EQ(share_of(all, PartKind::nic), 1);
  EXPECT_EQ(names(all, {PartKind::port, 3 * 3 + 2}),  // port of node 1, NIC 1
            (std::set<std::string>{"node1/nic1 out", "node1/nic1 in"}));
  EXPECT_EQ(names(all, {PartKind::cable, 3 * 6 + 5}),  // cable of unit 1, rail 1
            (std::set<std::string>{"unit1/leaf1 up 0", "unit1/leaf1 down 0"}));
  EXPECT_EQ(links_of(all, {PartKind::leaf, 4 * 3 - 1}).size(), 2u * 2 + 2);
  EXPECT_EQ(links_of(all, {PartKind::spine, 5}).size(), 2u * 4);
  EXPECT_EQ(links_of(all, {PartKind::plane, 2}).size(), all.links() - 2u * all.gpus());
}

TEST(Part, OfEightPlanesACableIsATwoThousandthAndAPortAnEighth) {
  Cluster::Shape shape = planes().shape();
  shape.planes = 8;
  shape.cables = 8 * 256;
  const Cluster all(GpuModel{}, shape, {});
  EXPECT_EQ(1 / share_of(all, PartKind::cable), 2048);
  EXPECT_EQ(1 / share_of(all, PartKind::port), 8);
}

}  // namespace
}  // namespace orrery

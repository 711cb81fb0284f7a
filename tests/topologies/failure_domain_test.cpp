#include "topologies/failure_domain.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "topologies/builder.hpp"

namespace orrery {
namespace {

using Members = std::vector<FailureDomain>;

/// Each keeps one copy; of how many the keeper stands in another rack, in another node.
std::pair<int, int> apart(const Members& members) {
  const std::vector<std::uint32_t> keepers = copy_keepers(members);
  EXPECT_EQ(keepers.size(), members.size());
  EXPECT_EQ(std::set<std::uint32_t>(keepers.begin(), keepers.end()).size(), members.size());
  int racks = 0, nodes = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members.size() > 1) {
      EXPECT_NE(keepers[i], i);
    }
    racks += members[i].rack != members[keepers[i]].rack ? 1 : 0;
    nodes += members[i].node != members[keepers[i]].node ? 1 : 0;
  }
  return {racks, nodes};
}

Members members_of(const std::vector<std::pair<int, int>>& racks_and_nodes) {
  Members members;
  for (const auto& [rack, node] : racks_and_nodes) {
    members.push_back({static_cast<std::uint32_t>(rack), static_cast<std::uint32_t>(node)});
  }
  return members;
}

TEST(CopyKeepers, StandInAnotherRackWhereTheyCan) {
  EXPECT_EQ(apart(members_of({{0, 0}, {0, 1}, {1, 2}, {1, 3}})), std::pair(4, 4));
  EXPECT_EQ(apart(members_of({{0, 0}, {1, 1}, {0, 0}, {1, 1}, {2, 2}})), std::pair(5, 5));
  EXPECT_EQ(apart(members_of({{0, 0}, {0, 0}, {0, 1}, {0, 1}, {1, 2}})).second, 5);  // 4 of 5
  // limited by the members' places
  EXPECT_EQ(apart(members_of({{0, 0}, {0, 0}, {0, 0}, {0, 1}})).second, 2);
}

TEST(CopyKeepers, OnOneNodeNeighboursKeepNeitherOthersCopy) {
  for (std::uint32_t count = 4; count < 20; ++count) {
    const std::vector<std::uint32_t> keepers = copy_keepers(Members(count));
    for (std::uint32_t i = 0; i < count; ++i) {
      EXPECT_NE(keepers[i], (i + 1) % count);
      EXPECT_NE(keepers[(i + 1) % count], i);
    }
  }
  EXPECT_EQ(copy_keepers(Members(2)), (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(copy_keepers(Members(1)), std::vector<std::uint32_t>{0});
  EXPECT_TRUE(copy_keepers(Members()).empty());
}

TEST(CopyKeepers, NoNodeHoldsBothUnlessItHoldsMoreThanHalf) {
  Rng rng = Rng(5).split_stream("keepers");
  for (int round = 0; round < 2000; ++round) {
    Members members;
    const std::size_t count = 2 + rng.below(30);
    for (std::size_t i = 0; i < count; ++i) {
      const auto node = static_cast<std::uint32_t>(rng.below(6));
      members.push_back({.rack = node / 3, .node = node});
    }
    std::vector<std::size_t> in_node(6, 0), in_rack(2, 0);
    for (const FailureDomain& member : members) ++in_node[member.node], ++in_rack[member.rack];
    const std::size_t node = *std::max_element(in_node.begin(), in_node.end());
    const std::size_t rack = *std::max_element(in_rack.begin(), in_rack.end());
    const auto [racks, nodes] = apart(members);
    const std::size_t possible = node <= count / 2 ? count : 2 * (count - node);
    EXPECT_EQ(nodes, static_cast<int>(possible)) << round;
    if (rack <= count / 2) {
      EXPECT_EQ(racks, static_cast<int>(count)) << round;
    }
  }
}

TEST(FailureDomain, IsTheNodeAndWhatSharesItsSwitches) {
  const auto built = [](const std::string& preset, std::uint32_t nodes) {
    Topology topology;
    topology.set_preset(preset);
    topology.set_nodes(nodes);
    resolve(topology, {});
    return build_cluster(topology, {});
  };
  const Cluster fat_tree = built("dgx-h100", 64);
  EXPECT_EQ(failure_domain(fat_tree, {9}), (FailureDomain{.rack = 0, .node = 1}));
  EXPECT_EQ(failure_domain(fat_tree, {8 * 40}), (FailureDomain{.rack = 1, .node = 40}));
  const Cluster domains = built("gb200-nvl72", 36);
  EXPECT_EQ(failure_domain(domains, {71}).rack, 0u);
  EXPECT_EQ(failure_domain(domains, {72}).rack, 1u);
}

}  // namespace
}  // namespace orrery

#include "topologies/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"

namespace orrery {
namespace {

// 11 nodes of 8 GPUs and 4 rails in units of 4: three units, the last one not full; 3 spines.
Cluster small_cluster() {
  GpuModel gpu{.name = "G", .memory = {80e9}, .memory_bandwidth = {1e12}, .fp32 = {1e13},
               .tf32 = {}, .bf16 = {1e14}, .fp8 = {}, .fp4 = {}, .nvlink = {450e9},
               .pcie = {64e9}, .idle_power = {50}, .max_power = {700}};
  return Cluster(gpu,
                 {.nodes = 11, .gpus_per_node = 8, .nics_per_node = 4, .nodes_per_unit = 4,
                  .spines = 3, .nic_bandwidth = {50e9}, .spine_link_bandwidth = {25e9},
                  .nvlink_latency = {1e-6}, .nic_latency = {2e-6}, .hop_latency = {5e-7},
                  .host_power = {2000}},
                 {.per_gpu = {3.0 / 3600}, .pue = 1.2});
}

std::vector<LinkId> route(const Cluster& cluster, std::uint32_t from, std::uint32_t to) {
  std::vector<LinkId> links;
  cluster.route({from}, {to}, links);
  return links;
}

std::vector<std::string> names(const Cluster& cluster, std::uint32_t from, std::uint32_t to) {
  std::vector<std::string> out;
  for (const LinkId id : route(cluster, from, to)) out.push_back(cluster.link_name(id));
  return out;
}

bool crosses_spine(const Cluster& cluster, std::uint32_t from, std::uint32_t to) {
  const auto links = route(cluster, from, to);
  return std::any_of(links.begin(), links.end(), [&](LinkId id) {
    return cluster.link(id).kind == LinkKind::leaf_up;
  });
}

using Names = std::vector<std::string>;

TEST(Cluster, CountsItsParts) {
  const Cluster cluster = small_cluster();
  EXPECT_EQ(cluster.gpus(), 88u);
  EXPECT_EQ(cluster.units(), 3u);
  EXPECT_EQ(cluster.rails(), 4u);
  EXPECT_EQ(cluster.links(), 2 * 88u + 2 * 11 * 4 + 2 * 3 * 4 * 3);
  EXPECT_EQ(cluster.rail_of({0}), 0u);
  EXPECT_EQ(cluster.rail_of({1}), 0u);
  EXPECT_EQ(cluster.rail_of({15}), 3u);
}

TEST(Cluster, LinkIdsAreDenseAndNamesAreUnique) {
  const Cluster cluster = small_cluster();
  std::set<std::uint32_t> ids;
  for (std::uint32_t gpu = 0; gpu < cluster.gpus(); ++gpu) {
    ids.insert(cluster.nvlink_out({gpu}).value);
    ids.insert(cluster.nvlink_in({gpu}).value);
  }
  for (std::uint32_t rail = 0; rail < cluster.rails(); ++rail) {
    for (std::uint32_t node = 0; node < cluster.nodes(); ++node) {
      ids.insert(cluster.nic_out({node}, rail).value);
      ids.insert(cluster.nic_in({node}, rail).value);
    }
    for (std::uint32_t unit = 0; unit < cluster.units(); ++unit) {
      for (std::uint32_t spine = 0; spine < 3; ++spine) {
        ids.insert(cluster.leaf_up(unit, rail, spine).value);
        ids.insert(cluster.leaf_down(unit, rail, spine).value);
      }
    }
  }
  EXPECT_EQ(ids.size(), cluster.links());
  EXPECT_EQ(*ids.rbegin(), cluster.links() - 1);
  std::set<std::string> seen;
  for (const std::uint32_t id : ids) seen.insert(cluster.link_name({id}));
  EXPECT_EQ(seen.size(), cluster.links());
}

TEST(Cluster, KindBandwidthAndNameBelongTogether) {
  const Cluster cluster = small_cluster();
  EXPECT_EQ(cluster.link_name(cluster.nic_out({3}, 2)), "node3/nic2 out");
  EXPECT_EQ(cluster.link_name(cluster.nic_in({10}, 0)), "node10/nic0 in");
  EXPECT_EQ(cluster.link_name(cluster.nvlink_in({17})), "node2/gpu1 in");
  EXPECT_EQ(cluster.link_name(cluster.leaf_up(0, 2, 1)), "unit0/leaf2 up 1");
  EXPECT_EQ(cluster.link_name(cluster.leaf_down(2, 3, 2)), "unit2/leaf3 down 2");
  EXPECT_EQ(cluster.link(cluster.nvlink_out({5})).kind, LinkKind::nvlink_out);
  EXPECT_EQ(cluster.link(cluster.nvlink_out({5})).bandwidth.value, 450e9);
  EXPECT_EQ(cluster.link(cluster.nic_in({5}, 1)).kind, LinkKind::nic_in);
  EXPECT_EQ(cluster.link(cluster.nic_in({5}, 1)).bandwidth.value, 50e9);
  EXPECT_EQ(cluster.link(cluster.leaf_down(1, 1, 1)).kind, LinkKind::leaf_down);
  EXPECT_EQ(cluster.link(cluster.leaf_down(1, 1, 1)).bandwidth.value, 25e9);
  EXPECT_THROW(cluster.link({cluster.links()}), Error);
}

TEST(Cluster, RoutesByHand) {
  const Cluster cluster = small_cluster();
  EXPECT_EQ(names(cluster, 3, 3), Names{}) << "to itself";
  EXPECT_EQ(names(cluster, 0, 5), (Names{"node0/gpu0 out", "node0/gpu5 in"})) << "in a node";
  EXPECT_EQ(names(cluster, 2, 10), (Names{"node0/nic1 out", "node1/nic1 in"})) << "same rail";
  EXPECT_EQ(names(cluster, 0, 15),
            (Names{"node0/gpu0 out", "node0/gpu7 in", "node0/nic3 out", "node1/nic3 in"}))
      << "another rail: over NVLink to the local GPU of that rail";
  EXPECT_EQ(names(cluster, 2, 5 * 8 + 2),
            (Names{"node0/nic1 out", "unit0/leaf1 up 2", "unit1/leaf1 down 2", "node5/nic1 in"}))
      << "another unit: over a spine";
}

// Properties of every route: it leaves the source and arrives at the destination, and each link
// begins at the end of the previous one.
void expect_contiguous(const Cluster& cluster, std::uint32_t from, std::uint32_t to) {
  const auto links = route(cluster, from, to);
  std::vector<std::uint32_t> seen;
  for (const LinkId id : links) {
    ASSERT_LT(id.value, cluster.links());
    seen.push_back(id.value);
  }
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end()) << "a link twice";
  std::string walk;
  for (const LinkId id : links) {
    constexpr char kLetters[] = {'o', 'i', 'N', 'n', 'U', 'D'};
    walk += kLetters[static_cast<std::size_t>(cluster.link(id).kind)];
  }
  const std::set<std::string> allowed = {"", "oi", "Nn", "oiNn", "NUDn", "oiNUDn"};
  ASSERT_TRUE(allowed.contains(walk)) << from << " to " << to << ": " << walk;
  const NodeId a = cluster.node_of({from}), b = cluster.node_of({to});
  const std::uint32_t rail = cluster.rail_of({to});
  std::vector<LinkId> expected;
  if (walk.starts_with('o')) expected.push_back(cluster.nvlink_out({from}));
  if (a == b && from != to) expected.push_back(cluster.nvlink_in({to}));
  if (walk.starts_with("oiN")) {
    ASSERT_EQ(cluster.rail_of({links[1].value - cluster.gpus()}), rail) << "relay on the rail";
    ASSERT_EQ(cluster.node_of({links[1].value - cluster.gpus()}), a) << "relay in the node";
    expected.push_back(links[1]);
  }
  if (a != b) {
    expected.push_back(cluster.nic_out(a, rail));
    if (cluster.unit_of(a) != cluster.unit_of(b)) {
      const std::uint32_t spine =
          (links[links.size() - 3].value - cluster.leaf_up(0, 0, 0).value) % 3;
      expected.push_back(cluster.leaf_up(cluster.unit_of(a), rail, spine));
      expected.push_back(cluster.leaf_down(cluster.unit_of(b), rail, spine));
    }
    expected.push_back(cluster.nic_in(b, rail));
  }
  ASSERT_EQ(links, expected) << from << " to " << to;
}

TEST(Cluster, EveryRouteIsContiguous) {
  const Cluster cluster = small_cluster();
  for (std::uint32_t from = 0; from < cluster.gpus(); ++from) {
    for (std::uint32_t to = 0; to < cluster.gpus(); ++to) {
      expect_contiguous(cluster, from, to);
    }
  }
}

TEST(Cluster, OnlyRoutesBetweenUnitsCrossTheSpine) {
  const Cluster cluster = small_cluster();
  for (std::uint32_t from = 0; from < cluster.gpus(); ++from) {
    for (std::uint32_t to = 0; to < cluster.gpus(); ++to) {
      const bool other_unit =
          cluster.unit_of(cluster.node_of({from})) != cluster.unit_of(cluster.node_of({to}));
      ASSERT_EQ(crosses_spine(cluster, from, to), other_unit) << from << " to " << to;
    }
  }
}

// Node i sends to node i + shift, all at once: no spine link may carry more than its share.
TEST(Cluster, ShiftsUseEverySpineAlike) {
  GpuModel gpu = small_cluster().gpu_model();
  Cluster::Shape shape = small_cluster().shape();
  shape.nodes = 128;
  shape.nodes_per_unit = 32;
  shape.spines = 32;
  const Cluster cluster(gpu, shape, {});
  for (const std::uint32_t shift : {1u, 7u, 32u, 50u, 64u, 127u}) {
    std::vector<int> flows(cluster.links());
    for (std::uint32_t node = 0; node < 128; ++node) {
      std::vector<LinkId> links;
      cluster.route({node * 8}, {(node + shift) % 128 * 8}, links);
      for (const LinkId id : links) ++flows[id.value];
    }
    EXPECT_EQ(*std::max_element(flows.begin(), flows.end()), 1) << "shift " << shift;
  }
}

TEST(Cluster, LatencyCountsWhatIsPassed) {
  const Cluster cluster = small_cluster();
  EXPECT_EQ(cluster.latency({1}, {1}).value, 0);
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {5}).value, 1e-6);
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {8}).value, 2e-6);
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {15}).value, 3e-6);
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {5 * 8}).value, 3e-6);
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {5 * 8 + 7}).value, 4e-6);
}

Cluster with_fabric(FabricKind kind, std::uint32_t nodes_per_domain = 1) {
  Cluster::Shape shape = small_cluster().shape();
  shape.fabric = kind;
  shape.nodes_per_domain = nodes_per_domain;
  return Cluster(small_cluster().gpu_model(), shape, {});
}

TEST(Cluster, FlatFabricJoinsAllNics) {
  const Cluster cluster = with_fabric(FabricKind::flat);
  EXPECT_EQ(cluster.links(), 2 * 88u + 2 * 11 * 4);
  EXPECT_EQ(cluster.units(), 1u);
  EXPECT_EQ(names(cluster, 0, 5), (Names{"node0/gpu0 out", "node0/gpu5 in"}));
  EXPECT_EQ(names(cluster, 0, 87), (Names{"node0/nic0 out", "node10/nic3 in"}));
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {87}).value, 2e-6);
}

TEST(Cluster, RingGoesTheShorterWayRound) {
  const Cluster cluster = with_fabric(FabricKind::ring);
  EXPECT_EQ(cluster.links(), 2 * 88u + 2 * 11 * 4 + 2 * 11 * 4);
  EXPECT_EQ(names(cluster, 0, 16),
            (Names{"node0/nic0 out", "node0/ring0 next", "node1/ring0 next", "node2/nic0 in"}));
  EXPECT_EQ(names(cluster, 0, 80),
            (Names{"node0/nic0 out", "node0/ring0 back", "node10/nic0 in"}));
  EXPECT_EQ(names(cluster, 0, 15),
            (Names{"node0/gpu0 out", "node0/gpu7 in", "node0/nic3 out", "node0/ring3 next",
                   "node1/nic3 in"}));
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {8}).value, 2e-6);
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {16}).value, 2.5e-6);
  EXPECT_EQ(cluster.link(cluster.ring_back({3}, 1)).kind, LinkKind::ring_back);
  EXPECT_EQ(cluster.link(cluster.ring_next({3}, 1)).bandwidth.value, 25e9);
  std::set<std::string> seen;
  for (std::uint32_t id = 0; id < cluster.links(); ++id) seen.insert(cluster.link_name({id}));
  EXPECT_EQ(seen.size(), cluster.links());
}

TEST(Cluster, ATorusGoesThroughOneDimensionAfterTheOther) {
  Cluster::Shape shape = small_cluster().shape();
  shape.nodes = 5 * 4 * 3;
  shape.gpus_per_node = shape.nics_per_node = 1;
  shape.fabric = FabricKind::torus;
  shape.torus = {5, 4, 3};
  const Cluster cluster(small_cluster().gpu_model(), shape, {});
  EXPECT_EQ(cluster.links(), 2 * 60u + 2 * 60 + 2 * 3 * 60);
  EXPECT_EQ(names(cluster, 0, 2 + 5 * 3),
            (Names{"node0/nic0 out", "node0/torus0 next 0", "node1/torus0 next 0",
                   "node2/torus0 back 1", "node17/nic0 in"}));
  EXPECT_EQ(names(cluster, 0, 20),
            (Names{"node0/nic0 out", "node0/torus0 next 2", "node20/nic0 in"}));
  EXPECT_EQ(names(cluster, 4, 40),
            (Names{"node4/nic0 out", "node4/torus0 next 0", "node0/torus0 back 2",
                   "node40/nic0 in"}));
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {1}).value, 2e-6);
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {17}).value, 2e-6 + 2 * 5e-7);
  std::set<std::string> seen;
  for (std::uint32_t id = 0; id < cluster.links(); ++id) seen.insert(cluster.link_name({id}));
  EXPECT_EQ(seen.size(), cluster.links());
}

TEST(Cluster, ADragonflyCrossesOneGlobalLinkAtMost) {
  Cluster::Shape shape = small_cluster().shape();
  shape.nodes = 3 * 4 * 2;
  shape.gpus_per_node = shape.nics_per_node = 1;
  shape.fabric = FabricKind::dragonfly;
  shape.routers_per_group = 4;
  shape.nodes_per_router = 2;
  shape.upper_link_bandwidth = {75e9};
  const Cluster cluster(small_cluster().gpu_model(), shape, {});
  EXPECT_EQ(cluster.groups(), 3u);
  EXPECT_EQ(cluster.links(), 2 * 24u + 2 * 24 + 12 * 4 + 9);
  EXPECT_EQ(names(cluster, 0, 1), (Names{"node0/nic0 out", "node1/nic0 in"})) << "one router";
  EXPECT_EQ(names(cluster, 0, 7),
            (Names{"node0/nic0 out", "router0/local0 to 3", "node7/nic0 in"}));
  EXPECT_EQ(names(cluster, 0, 22),
            (Names{"node0/nic0 out", "router0/local0 to 2", "group0/global0 to 2",
                   "router8/local0 to 3", "node22/nic0 in"}));
  EXPECT_EQ(names(cluster, 4, 16),
            (Names{"node4/nic0 out", "group0/global0 to 2", "node16/nic0 in"}));
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {22}).value, 2e-6 + 3 * 5e-7);
  EXPECT_EQ(cluster.link(cluster.group_global(0, 0, 2)).bandwidth.value, 75e9);
  std::set<std::string> seen;
  for (std::uint32_t id = 0; id < cluster.links(); ++id) seen.insert(cluster.link_name({id}));
  EXPECT_EQ(seen.size(), cluster.links());
}

TEST(Cluster, AThirdTierIsCrossedBetweenPods) {
  Cluster::Shape shape = small_cluster().shape();
  shape.units_per_pod = 2;
  shape.cores = 2;
  shape.upper_link_bandwidth = {100e9};
  const Cluster cluster(small_cluster().gpu_model(), shape, {});
  EXPECT_EQ(cluster.pods(), 2u);
  EXPECT_EQ(names(cluster, 0, 4 * 8),
            (Names{"node0/nic0 out", "unit0/leaf0 up 1", "unit1/leaf0 down 1", "node4/nic0 in"}));
  EXPECT_EQ(names(cluster, 0, 8 * 8),
            (Names{"node0/nic0 out", "unit0/leaf0 up 2", "pod0/spine0.2 up 0",
                   "pod1/spine0.2 down 0", "unit2/leaf0 down 2", "node8/nic0 in"}));
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {32}).value, 2e-6 + 2 * 5e-7);
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {64}).value, 2e-6 + 4 * 5e-7);
  EXPECT_EQ(cluster.link(cluster.core_down(1, 0, 2, 0)).bandwidth.value, 100e9);
  std::set<std::string> seen;
  for (std::uint32_t id = 0; id < cluster.links(); ++id) seen.insert(cluster.link_name({id}));
  EXPECT_EQ(seen.size(), cluster.links());
}

TEST(Cluster, NvlinkDomainsSpanNodes) {
  const Cluster cluster = with_fabric(FabricKind::fat_tree, 2);
  EXPECT_EQ(cluster.domain_of({15}), 0u);
  EXPECT_EQ(cluster.domain_of({16}), 1u);
  EXPECT_EQ(names(cluster, 0, 15), (Names{"node0/gpu0 out", "node1/gpu7 in"}));
  EXPECT_EQ(names(cluster, 0, 16), (Names{"node0/nic0 out", "node2/nic0 in"}));
  EXPECT_DOUBLE_EQ(cluster.latency({0}, {15}).value, 1e-6);
}

TEST(Cluster, WithoutNvlinkPeersTalkOverPcie) {
  GpuModel gpu = small_cluster().gpu_model();
  gpu.nvlink = {0};
  const Cluster cluster(gpu, small_cluster().shape(), {});
  EXPECT_EQ(cluster.link(cluster.nvlink_out({0})).bandwidth.value, 64e9);
}

TEST(Cluster, TheLargestSizesFitTheirIds) {
  Cluster::Shape shape = small_cluster().shape();
  shape.nodes = 131072;
  shape.nics_per_node = 8;
  shape.nodes_per_unit = 32;
  shape.spines = 32;
  const Cluster cluster(small_cluster().gpu_model(), shape, {});
  Rng rng(7);
  for (int i = 0; i < 1000; ++i) {
    const auto from = static_cast<std::uint32_t>(rng.below(cluster.gpus()));
    const auto to = static_cast<std::uint32_t>(rng.below(cluster.gpus()));
    for (const LinkId id : route(cluster, from, to)) ASSERT_LT(id.value, cluster.links());
  }
  EXPECT_EQ(cluster.link_name({cluster.links() - 1}), "unit4095/leaf7 down 31");
}

/// 64 nodes of one NIC on each of two leaves, 32 spines; traffic goes by a hash.
Cluster hashed(std::uint64_t seed) {
  Cluster::Shape shape = small_cluster().shape();
  shape.nodes = 128;
  shape.gpus_per_node = shape.nics_per_node = 1;
  shape.nodes_per_unit = 64;
  shape.spines = 32;
  shape.transport = Transport::ecmp;
  shape.hash_seed = seed;
  return Cluster(small_cluster().gpu_model(), shape, {});
}

struct Bins {
  double empty = 0, fullest = 0;
};
Bins filled(const std::vector<std::uint32_t>& balls) {
  Bins bins;
  for (const std::uint32_t each : balls) {
    bins.empty += each == 0 ? 1 : 0;
    bins.fullest = std::max(bins.fullest, double{1} * each);
  }
  return bins;
}

/// 64 flows from one leaf to the other, each to a partner of its own, over 32 spines, as balls fall
/// into bins: 32 (1 - 1/32)^64 stay empty, and the fullest spine has as many flows as the fullest
/// bin.
TEST(Cluster, HashedFlowsCollideAsBallsInBins) {
  constexpr int samples = 2000;
  Rng rng(3);
  Bins flows, balls;
  for (int sample = 0; sample < samples; ++sample) {
    const Cluster cluster = hashed(static_cast<std::uint64_t>(sample));
    std::vector<std::uint32_t> spines(32), bins(32);
    for (std::uint32_t node = 0; node < 64; ++node) {
      const std::vector<LinkId> way = route(cluster, node, 64 + node);
      ASSERT_EQ(way.size(), 4u);
      EXPECT_EQ(way[2].value - cluster.leaf_down(1, 0, 0).value,
                way[1].value - cluster.leaf_up(0, 0, 0).value);
      ++spines[way[1].value - cluster.leaf_up(0, 0, 0).value];
      ++bins[rng.below(32)];
    }
    const Bins of_flows = filled(spines), of_balls = filled(bins);
    flows.empty += of_flows.empty / samples, balls.empty += of_balls.empty / samples;
    flows.fullest += of_flows.fullest / samples, balls.fullest += of_balls.fullest / samples;
  }
  const double expected = 32 * std::pow(1 - 1. / 32, 64);
  EXPECT_NEAR(flows.empty, expected, 4 * 1.7 / std::sqrt(samples)) << "within four sigma";
  EXPECT_NEAR(flows.fullest, balls.fullest, 4 * 1.2 / std::sqrt(samples));
  EXPECT_GT(flows.fullest, 2 * 64 / 32) << "twice as much as if they were spread";
}

TEST(GpuModel, RefusesPrecisionsItLacks) {
  const GpuModel gpu = small_cluster().gpu_model();
  EXPECT_EQ(gpu.peak(Precision::bf16).value, 1e14);
  try {
    gpu.peak(Precision::fp8);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "GPU G does not support fp8");
  }
}

}  // namespace
}  // namespace orrery

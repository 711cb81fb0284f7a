// Torus, dragonfly and fat-tree of three tiers against SimGrid's own zones, used directly: the same
// messages between the same nodes, with paths that SimGrid computes by itself.
#include <cmath>
#include <map>
#include <numeric>

#include <gtest/gtest.h>
#include <simgrid/s4u.hpp>

#include "core/random.hpp"
#include "sim/engine/simgrid_engine.hpp"
#include "tests/sim/run.hpp"
#include "topologies/cluster.hpp"

namespace orrery::testing {
namespace {

namespace s4u = simgrid::s4u;

constexpr double kRate = 50e9;

struct Message {
  std::uint32_t from, to;
  double bytes;
};
using Messages = std::vector<Message>;
using MakeZone = std::function<s4u::NetZone*(const s4u::ClusterCallbacks&)>;

/// Every node sends `each` messages of different sizes to nodes drawn at random.
Messages drawn_messages(std::uint32_t nodes, std::uint32_t each, std::uint64_t seed) {
  Rng rng(seed);
  Messages out;
  for (std::uint32_t from = 0; from < nodes; ++from) {
    for (std::uint32_t i = 0; i < each; ++i) {
      const auto to = static_cast<std::uint32_t>(rng.below(nodes));
      if (to != from) out.push_back({from, to, std::floor(1e9 * (1 + rng.uniform()))});
    }
  }
  return out;
}

/// Seconds of each message over a zone of SimGrid.
std::vector<double> by_simgrid(const MakeZone& make, const Messages& messages) {
  return numbers_in_child([&] {
    s4u::Engine engine("oracle");
    s4u::Engine::set_config("network/model:CM02");
    s4u::Engine::set_config("network/crosstraffic:0");
    s4u::Engine::set_config("network/TCP-gamma:1e30");
    std::vector<s4u::Host*> hosts;
    const auto leaf = [&hosts](s4u::NetZone* zone, const std::vector<unsigned long>&,
                               unsigned long id)
        -> std::pair<simgrid::kernel::routing::NetPoint*, simgrid::kernel::routing::NetPoint*> {
      s4u::Host* const host = zone->create_host("h" + std::to_string(id), 1)->seal();
      if (hosts.size() <= id) hosts.resize(id + 1);
      hosts[id] = host;
      return {host->get_netpoint(), nullptr};
    };
    make(s4u::ClusterCallbacks(leaf))->seal();
    std::vector<double> ends(messages.size());
    std::map<const s4u::Activity*, std::size_t> numbers;
    s4u::Activity::on_completion_cb([&](const s4u::Activity& done) {
      ends[numbers.at(&done)] = s4u::Engine::get_clock();
    });
    std::vector<s4u::CommPtr> comms;
    for (const Message& message : messages) {
      comms.push_back(s4u::Comm::sendto_init(hosts.at(message.from), hosts.at(message.to)));
      numbers[comms.back().get()] = comms.size() - 1;
      comms.back()->set_payload_size(static_cast<std::uint64_t>(message.bytes));
      comms.back()->start();
    }
    engine.run();
    return ends;
  });
}

/// Seconds of each message over the links of the cluster.
std::vector<double> by_cluster(const Cluster& cluster, const Messages& messages) {
  return numbers_in_child([&] {
    sim::SimGridEngine engine(1, cluster.links());
    std::vector<double> ends(messages.size());
    engine.after(0, [&] {
      for (std::uint32_t link = 0; link < cluster.links(); ++link) {
        engine.set_bandwidth(link, cluster.link({link}).bandwidth.value);
      }
      for (std::size_t i = 0; i < messages.size(); ++i) {
        std::vector<LinkId> route;
        cluster.route({messages[i].from}, {messages[i].to}, route);
        std::vector<std::uint32_t> links;
        for (const LinkId link : route) links.push_back(link.value);
        engine.flow(links, messages[i].bytes, [&ends, &engine, i](bool) {
          ends[i] = engine.now();
        });
      }
    });
    engine.run();
    return ends;
  });
}

Cluster cluster_of(Cluster::Shape shape, double nic = kRate) {
  const GpuModel gpu{.name = "G", .memory = {80e9}, .memory_bandwidth = {1e12}, .fp32 = {1e13},
                     .tf32 = {}, .bf16 = {1e14}, .fp8 = {}, .fp4 = {}, .nvlink = {450e9},
                     .pcie = {64e9}, .idle_power = {50}, .max_power = {700}};
  shape.gpus_per_node = shape.nics_per_node = 1;
  shape.nic_bandwidth = {nic};
  shape.spine_link_bandwidth = shape.upper_link_bandwidth = {kRate};
  return Cluster(gpu, shape, {});
}

void expect_equal(const Cluster& cluster, const MakeZone& make, const Messages& messages) {
  const std::vector<double> ours = by_cluster(cluster, messages);
  const std::vector<double> theirs = by_simgrid(make, messages);
  ASSERT_EQ(ours.size(), theirs.size());
  double longest = 0, alone = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(ours[i] / theirs[i], 1, 1e-3)
        << "node " << messages[i].from << " to " << messages[i].to;
    longest = std::max(longest, ours[i]);
    alone = std::max(alone, messages[i].bytes / kRate);
  }
  EXPECT_GT(longest, 1.5 * alone) << "messages share links";
}

constexpr auto kSplit = s4u::Link::SharingPolicy::SPLITDUPLEX;

/// Odd sizes leave no two ways of equal length, of which both programs would have to choose one.
TEST(FabricOracle, ATorusOfThreeDimensions) {
  Cluster::Shape shape{};
  shape.nodes = 5 * 3 * 7;
  shape.fabric = FabricKind::torus;
  shape.torus = {5, 3, 7};
  const MakeZone make = [](const s4u::ClusterCallbacks& leaf) {
    return s4u::create_torus_zone("torus", nullptr, {5, 3, 7}, leaf, kRate, 0, kSplit);
  };
  expect_equal(cluster_of(shape, 1e15), make, drawn_messages(shape.nodes, 3, 1));
}

TEST(FabricOracle, ATorusOfTwoDimensions) {
  Cluster::Shape shape{};
  shape.nodes = 9 * 11;
  shape.fabric = FabricKind::torus;
  shape.torus = {9, 11, 1};
  const MakeZone make = [](const s4u::ClusterCallbacks& leaf) {
    return s4u::create_torus_zone("torus", nullptr, {9, 11}, leaf, kRate, 0, kSplit);
  };
  expect_equal(cluster_of(shape, 1e15), make, drawn_messages(shape.nodes, 3, 2));
}

TEST(FabricOracle, ADragonflyOfFiveGroups) {
  Cluster::Shape shape{};
  shape.fabric = FabricKind::dragonfly;
  shape.routers_per_group = 6;
  shape.nodes_per_router = 3;
  shape.nodes = 5 * 6 * 3;
  const MakeZone make = [](const s4u::ClusterCallbacks& leaf) {
    return s4u::create_dragonfly_zone("dragonfly", nullptr, {{5, 1}, {1, 1}, {6, 1}, 3}, leaf,
                                      kRate, 0, kSplit);
  };
  expect_equal(cluster_of(shape), make, drawn_messages(shape.nodes, 3, 3));
}

/// Units of 4 nodes, pods of 3 units, 4 pods; 2 spines in a pod, 2 cores above each.
TEST(FabricOracle, AFatTreeOfThreeTiers) {
  Cluster::Shape shape{};
  shape.nodes = 4 * 3 * 4;
  shape.nodes_per_unit = 4;
  shape.units_per_pod = 3;
  shape.spines = 2;
  shape.cores = 2;
  const MakeZone make = [](const s4u::ClusterCallbacks& leaf) {
    return s4u::create_fatTree_zone("tree", nullptr, {3, {4, 3, 4}, {1, 2, 2}, {1, 1, 1}}, leaf,
                                    kRate, 0, kSplit);
  };
  expect_equal(cluster_of(shape), make, drawn_messages(shape.nodes, 3, 4));
}

}  // namespace
}  // namespace orrery::testing

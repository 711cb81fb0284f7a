#include "topologies/builder.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace orrery {
namespace {

Cluster build(const std::string& text) {
  Topology topology;
  const SourceMap places = load_yaml(text, "t.yaml", topology);
  resolve(topology, places);
  return build_cluster(topology, places);
}

std::string refusal(const std::string& text) {
  try {
    build(text);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input || !error.source_place())
      return "an error of another kind";
    return std::to_string(error.source_place()->line) + ":" +
           std::to_string(error.source_place()->column) + ": " + error.message();
  }
  return "accepted";
}

const std::string kByHand =
    "nodes: 4\n"
    "node: {gpu: H100, gpus_per_node: 8, nics_per_node: 8, nic_bandwidth: 400 Gbps}\n"
    "fabric: {nodes_per_unit: 2, spines: 2, spine_link_bandwidth: 50 GB/s}\n";

TEST(Build, PresetIsWhole) {
  const Cluster cluster = build("preset: dgx-h100\nnodes: 64");
  EXPECT_EQ(cluster.gpus(), 512u);
  EXPECT_EQ(cluster.units(), 2u);
  EXPECT_EQ(cluster.gpu_model().name, "H100");
  EXPECT_EQ(cluster.gpu_model().peak(Precision::bf16).value, 989.4e12);
  EXPECT_EQ(cluster.shape().nic_bandwidth.value, 50e9);
  EXPECT_DOUBLE_EQ(cluster.price().per_gpu.value, 3.0 / 3600);
  EXPECT_EQ(cluster.shape().nvlink_latency.value, 1e-6) << "a default of the schema";
}

TEST(Build, WhatIsWrittenBesideAPresetWins) {
  const Cluster cluster = build(
      "preset: dgx-h100\nnodes: 64\nfabric: {spine_link_bandwidth: 200 Gbps, hop_latency: 0 ns}\n"
      "node: {host_power: 1 kW}\nprice: {gpu_hour: 0 USD/h}\n");
  EXPECT_EQ(cluster.shape().spine_link_bandwidth.value, 25e9);
  EXPECT_EQ(cluster.shape().hop_latency.value, 0) << "a written 0 is a value";
  EXPECT_EQ(cluster.shape().host_power.value, 1000);
  EXPECT_EQ(cluster.shape().spines, 32u) << "the preset's";
  EXPECT_EQ(cluster.price().per_gpu.value, 0);
  EXPECT_EQ(cluster.price().pue, 1.25) << "the preset's, not the default";
}

TEST(Build, ByHandNeedsNodeAndFabric) {
  EXPECT_EQ(build(kByHand).links(), 2 * 32u + 2 * 32 + 2 * 2 * 8 * 2);
  EXPECT_EQ(build(kByHand).price().pue, 1.2) << "a default of the schema";
  EXPECT_EQ(refusal("nodes: 4"),
            "1:1: missing key 'node': give a preset, or node and fabric by hand");
  EXPECT_EQ(refusal("nodes: 4\nnode: {gpu: H100}\nfabric: {spines: 1}"),
            "2:7: missing key 'gpus_per_node' in node");
}

TEST(Build, OwnGpuModelsComeFirst) {
  const std::string own =
      "gpus:\n  - {name: H100, memory: 1 GB, memory_bandwidth: 1 GB/s, fp32: 1 TFLOP/s, "
      "bf16: 2 TFLOP/s, pcie: 1 GB/s, idle_power: 1 W, max_power: 5 W, source: [lab]}\n";
  EXPECT_EQ(build(kByHand + own).gpu_model().bf16.value, 2e12);
}

TEST(Build, UnknownNamesShowTheNearest) {
  EXPECT_EQ(refusal("preset: dgx-h10\nnodes: 4"),
            "1:9: unknown preset 'dgx-h10'; did you mean 'dgx-h100'?");
  EXPECT_EQ(refusal("preset: dgx-h100\nnodes: 4\nnode: {gpu: B20}"),
            "3:13: unknown GPU 'B20'; did you mean 'B200'?");
  EXPECT_EQ(refusal("preset: nothing-like-it\nnodes: 4").substr(0, 50),
            "1:9: unknown preset 'nothing-like-it'; known: dgx-");
}

TEST(Build, FieldsAreCheckedAgainstEachOther) {
  EXPECT_EQ(refusal("preset: dgx-h100\nnodes: 4\nnode: {nics_per_node: 3}"),
            "3:23: 3 NICs do not divide 8 GPUs: every rail serves as many GPUs");
  EXPECT_EQ(refusal("preset: dgx-h100\nnodes: 131072\nfabric: {nodes_per_unit: 1, spines: 4096}"),
            "2:8: the cluster would have 8594128896 links; at most 100000000 are supported");
  const std::string hot =
      "gpus:\n  - {name: Hot, memory: 1 GB, memory_bandwidth: 1 GB/s, fp32: 1 TFLOP/s,\n"
      "     bf16: 2 TFLOP/s, pcie: 1 GB/s, idle_power: 9 W, max_power: 5 W, source: [lab]}\n";
  EXPECT_EQ(refusal("preset: dgx-h100\nnodes: 4\nnode: {gpu: Hot}\n" + hot),
            "6:49: 'idle_power' is above 'max_power'");
}

/// Four EFA devices of 100 Gb/s a GPU are one rail of 400.
TEST(Build, SeveralNicsOfAGpuAreOneRail) {
  const Cluster many = build("preset: dgx-h100\nnodes: 4\n"
                             "node: {nics_per_node: 32, nic_bandwidth: 100 Gbps}");
  const Cluster one = build("preset: dgx-h100\nnodes: 4\n"
                            "node: {nics_per_node: 8, nic_bandwidth: 400 Gbps}");
  EXPECT_EQ(many.shape().nics_per_node, 8u);
  EXPECT_DOUBLE_EQ(many.shape().nic_bandwidth.value, one.shape().nic_bandwidth.value);
  EXPECT_EQ(many.links(), one.links());
}

/// A GPU's family comes from its formats, not from its name.
TEST(Build, AFamilyComesFromTheFormatsUnlessItIsNamed) {
  const std::string head = "nodes: 1\npreset: dgx-h100\nnode: {gpu: Own}\ngpus:\n  - {name: Own, ";
  const std::string rest = "memory: 80 GB, memory_bandwidth: 3 TB/s, fp32: 60 TFLOP/s, "
                           "bf16: 900 TFLOP/s, pcie: 64 GB/s, idle_power: 70 W, "
                           "max_power: 700 W, source: [x]";
  EXPECT_EQ(build(head + rest + "}").gpu_model().family, "A100");
  EXPECT_EQ(build(head + rest + ", fp8: 1800 TFLOP/s}").gpu_model().family, "H100");
  EXPECT_EQ(build(head + rest + ", fp4: 9 PFLOP/s}").gpu_model().family, "B200");
  EXPECT_EQ(build(head + rest + ", family: B200}").gpu_model().family, "B200");
  EXPECT_EQ(build("preset: dgx-h100\nnodes: 1").gpu_model().family, "H100");
}

TEST(Build, EachKindOfFabricHasItsKeys) {
  const std::string node =
      "nodes: 4\nnode: {gpu: H100, gpus_per_node: 8, nics_per_node: 8, nic_bandwidth: 50 GB/s}\n";
  EXPECT_EQ(build(node + "fabric: {kind: flat}").shape().fabric, FabricKind::flat);
  const Cluster ring = build(node + "fabric: {kind: ring, ring_link_bandwidth: 25 GB/s}");
  EXPECT_EQ(ring.shape().fabric, FabricKind::ring);
  EXPECT_EQ(ring.link(ring.ring_next({0}, 0)).bandwidth.value, 25e9);
  EXPECT_EQ(refusal(node + "fabric: {kind: flat, spines: 3}"),
            "3:30: 'spines' belongs to a fabric of kind fat-tree, not flat");
  EXPECT_EQ(refusal(node + "fabric: {kind: ring}"),
            "3:9: missing key 'ring_link_bandwidth' in fabric: a ring needs it");
  EXPECT_EQ(refusal(node + "fabric: {spines: 2}"),
            "3:9: missing key 'nodes_per_unit' in fabric: a fat-tree needs it");
  EXPECT_EQ(build("preset: dgx-h100\nnodes: 4\nfabric: {kind: flat}").shape().fabric,
            FabricKind::flat)
      << "another kind by hand replaces the preset's whole shape";
}

TEST(Build, PlacesAreBelowTheEnclosingPath) {
  Topology topology;
  topology.set_preset("dgx-h10");
  topology.set_nodes(1);
  try {
    resolve(topology, SourceMap(), "cluster");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "cluster.preset: unknown preset 'dgx-h10'; did you mean 'dgx-h100'?");
  }
}

TEST(Resolve, TwiceIsOnce) {
  Topology topology;
  const SourceMap places = load_yaml("preset: dgx-h100\nnodes: 4", "t.yaml", topology);
  resolve(topology, places);
  const std::string once = topology.SerializeAsString();
  resolve(topology, places);
  EXPECT_EQ(topology.SerializeAsString(), once);
}

const std::string kPlanes = "fabric: {kind: multi-plane, planes: 8, switch_ports: 512}\n";

TEST(Build, EightPlanesOf512PortSwitchesJoin131072Nics) {
  const Cluster cluster = build("preset: dgx-b300\nnodes: 16384\n" + kPlanes);
  const Cluster::Switches switches = cluster.switches();
  EXPECT_EQ(cluster.nodes() * cluster.rails(), 131'072u);
  EXPECT_EQ(switches.leaves, 8 * 512u);
  EXPECT_EQ(switches.spines, 8 * 256u);
  EXPECT_EQ(switches.all(), 6144u);
  EXPECT_EQ(switches.paths, 2048u);
  EXPECT_EQ(three_tier_switches(131'072, 64), 10'240u);
  EXPECT_EQ(three_tier_switches(65'536, 64), 5 * 64u * 64 / 4) << "all that k = 64 can have";
  const Link up = cluster.link(cluster.leaf_up(63, 7, 0));
  EXPECT_DOUBLE_EQ(up.bandwidth.value, 2048 * 100e9 / 8);
  EXPECT_DOUBLE_EQ(up.bandwidth.value, 256 * cluster.shape().nic_bandwidth.value)
      << "nothing is blocked";
}

TEST(Build, PlanesAreRefusedWhereTheyDoNotFit) {
  EXPECT_EQ(refusal("preset: dgx-b300\nnodes: 16385\n" + kPlanes),
            "3:54: 16385 nodes need 520 leaf switches a plane, a spine has 512 ports");
  EXPECT_EQ(refusal("preset: dgx-b300\nnodes: 8\n"
                    "fabric: {kind: multi-plane, planes: 8, switch_ports: 64, transport: ecmp}\n"),
            "3:69: ecmp takes one way, and so one of the 8 planes: expected spray or adaptive");
  EXPECT_EQ(refusal("preset: dgx-b300\nnodes: 8\nfabric: {kind: flat, transport: spray}\n"),
            "3:33: a flat fabric has one way only");
  EXPECT_EQ(refusal("preset: dgx-b300\nnodes: 8\nfabric: {planes: 2}\n"),
            "3:18: 'planes' belongs to a fabric of kind multi-plane, not fat-tree");
}

TEST(Build, SpreadTrafficSeesOneLinkThatCarriesWhatAllSpinesDo) {
  const Cluster one = build("preset: dgx-h100\nnodes: 64\n");
  const Cluster all = build("preset: dgx-h100\nnodes: 64\nfabric: {transport: adaptive}\n");
  EXPECT_EQ(all.switches().all(), one.switches().all());
  EXPECT_DOUBLE_EQ(all.link(all.leaf_up(0, 0, 0)).bandwidth.value,
                   32 * one.link(one.leaf_up(0, 0, 0)).bandwidth.value);
  EXPECT_FALSE(one.shape().reroute) << "what needs a lost link waits for it";
  EXPECT_EQ(all.shape().reroute->value, 1e-3);
}

TEST(Build, APowerCapCostsItsCubeRoot) {
  const GpuModel all = build("preset: dgx-h100\nnodes: 1\n").gpu_model();
  const GpuModel capped =
      build("preset: dgx-h100\nnodes: 1\nnode: {power_cap: 400 W}\n").gpu_model();
  const double share = (400 - all.idle_power.value) / (all.max_power.value - all.idle_power.value);
  EXPECT_DOUBLE_EQ(capped.power_cap.value, 400);
  EXPECT_DOUBLE_EQ(capped.max_power.value, 700) << "of the data sheet";
  EXPECT_DOUBLE_EQ(capped.bf16.value, all.bf16.value * std::cbrt(share));
  EXPECT_EQ(capped.memory_bandwidth.value, all.memory_bandwidth.value);
  const std::string above = "preset: dgx-h100\nnodes: 1\nnode: {power_cap: 900 W}\n";
  EXPECT_EQ(build(above).gpu_model().bf16.value, all.bf16.value) << "it draws no more anyway";
  EXPECT_NE(refusal("preset: dgx-h100\nnodes: 1\nnode: {power_cap: 20 W}\n").find("idling"),
            std::string::npos);
}

TEST(Build, ATorusHasANodeAtEveryPlace) {
  const std::string node =
      "node: {gpu: TPU-v5p, gpus_per_node: 1, nics_per_node: 1, nic_bandwidth: 600 GB/s}\n";
  const std::string torus = "fabric: {kind: torus, torus_link_bandwidth: 100 GB/s, dimensions: ";
  const Cluster cluster = build("nodes: 128\n" + node + torus + "8x4x4}\n");
  EXPECT_EQ(cluster.shape().torus, (std::array<std::uint32_t, 3>{8, 4, 4}));
  EXPECT_EQ(cluster.link(cluster.torus_link({5}, 0, 2, true)).bandwidth.value, 100e9);
  EXPECT_EQ(build("nodes: 16\n" + node + torus + "4x4}\n").shape().torus[2], 1u);
  EXPECT_EQ(refusal("nodes: 100\n" + node + torus + "8x4x4}\n"),
            "3:67: 8x4x4 have 128 places, the cluster 100 nodes");
  for (const char* const wrong : {"8x", "x8", "8x0", "8 x 4", "2x2x2x2", "many"}) {
    EXPECT_NE(refusal("nodes: 8\n" + node + torus + "'" + wrong + "'}\n").find("such as 8x8x4"),
              std::string::npos) << wrong;
  }
  EXPECT_NE(refusal("nodes: 8\n" + node + "fabric: {kind: torus, dimensions: 2x2x2}\n")
                .find("missing key 'torus_link_bandwidth'"), std::string::npos);
}

TEST(Build, AThirdTierNeedsAllOfItsKeys) {
  const std::string three = "preset: dgx-h100\nnodes: 256\nfabric: {units_per_pod: 2, ";
  const Cluster cluster = build(three + "cores: 16, core_link_bandwidth: 800 Gbps}\n");
  EXPECT_EQ(cluster.pods(), 4u);
  EXPECT_EQ(cluster.switches().leaves, 8 * 8u);
  EXPECT_EQ(cluster.switches().spines, 4 * 32u);
  EXPECT_EQ(cluster.switches().cores, 32 * 16u);
  EXPECT_EQ(cluster.link(cluster.core_up(3, 7, 31, 15)).bandwidth.value, 100e9);
  EXPECT_NE(refusal(three + "cores: 16}\n").find("missing key 'core_link_bandwidth' in fabric: a "
                                                 "third tier needs it"), std::string::npos);
  EXPECT_NE(refusal(three + "cores: 16, core_link_bandwidth: 800 Gbps, in_network_reduction: true}")
                .find("two tiers"), std::string::npos);
  const Cluster spread =
      build(three + "cores: 16, core_link_bandwidth: 800 Gbps, transport: adaptive}\n");
  EXPECT_DOUBLE_EQ(spread.link(spread.core_up(0, 0, 0, 0)).bandwidth.value, 32 * 16 * 100e9);
}

TEST(Build, PricesByTheHourReplaceTheConstant) {
  const Price price = build("preset: dgx-h100\nnodes: 1\nprice: {electricity_by_hour: [0.1, 0.3], "
                            "carbon: 250, begins_at: 8 h}\n").price();
  EXPECT_DOUBLE_EQ(price.per_kwh, 0.2) << "the mean";
  EXPECT_EQ(price.per_kwh_by_hour, (std::vector<double>{0.1, 0.3}));
  EXPECT_EQ(price.carbon_g_per_kwh, 250);
  EXPECT_EQ(price.begins_at.value, 8 * 3600);
  EXPECT_NE(refusal("preset: dgx-h100\nnodes: 1\nprice: {carbon: 250, carbon_by_hour: [1, 2]}\n")
                .find("found both"), std::string::npos);
}

}  // namespace
}  // namespace orrery

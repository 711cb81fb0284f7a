#include "traces/clusters/cluster_file.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_writer.hpp"
#include "topologies/builder.hpp"
#include "traces/clusters/cluster_writers.hpp"
#include "traces/clusters/xml_tree.hpp"

namespace orrery {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string sample(const std::string& name) {
  std::ifstream in(ORRERY_SOURCE_DIR "/tests/traces/clusters/samples/" + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

ClusterFacts facts_of(const std::string& name) { return parse_cluster_file(sample(name), name); }

std::string error_of(const std::string& text) {
  try {
    parse_cluster_file(text, "c");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// The cluster after it was written and read again.
Topology rewritten(const Topology& topology) {
  Topology again;
  load_yaml(to_yaml(topology), "again.yaml", again);
  resolve(again, SourceMap{});
  return again;
}

TEST(ClusterFile, TopologyOfNccl) {
  const ClusterFacts facts = facts_of("nccl.xml");
  EXPECT_EQ(facts.gpu, "H100");
  EXPECT_EQ(facts.gpus_per_node, 8u);
  EXPECT_EQ(facts.nvlinks, 18u);
  EXPECT_EQ(facts.nics_per_node, 8u);
  EXPECT_EQ(facts.nic_bandwidth, 50e9);  // 400,000 Mbit/s
  EXPECT_EQ(facts.nodes, 0u);
}

TEST(ClusterFile, SeveralHostsOfNcclAreOneNvlinkDomain) {
  const ClusterFacts facts = parse_cluster_file(
      R"(<system version="1"><cpu host_hash="0x1"><pci><gpu sm="100"><nvlink count="18"/></gpu>
</pci></cpu><cpu host_hash="0x2"><pci><gpu sm="100"/></pci></cpu></system>)",
      "nccl.xml");
  EXPECT_EQ(facts.gpu, "GB200");
  EXPECT_EQ(facts.nodes_per_domain, 2u);
  EXPECT_EQ(facts.gpus_per_node, 1u);
}

TEST(ClusterFile, TableOfNvidiaSmi) {
  const ClusterFacts facts = facts_of("nvidia-smi-topo.txt");
  EXPECT_EQ(facts.gpu, "A100-80GB");
  EXPECT_EQ(facts.gpus_per_node, 8u);
  EXPECT_EQ(facts.nics_per_node, 4u);
  EXPECT_EQ(facts.nvlinks, 12u);
  EXPECT_EQ(facts.nic_bandwidth, 0);
}

TEST(ClusterFile, DevicesOfHwloc) {
  const ClusterFacts facts = facts_of("hwloc.xml");
  EXPECT_EQ(facts.gpu, "H200");
  EXPECT_EQ(facts.gpus_per_node, 2u);
  EXPECT_EQ(facts.nics_per_node, 1u);
  EXPECT_FALSE(facts.knows_nvlinks);
  EXPECT_THAT(error_of("<topology><object type='Machine'/></topology>"),
              HasSubstr("expected a PCI device of class 0302"));
}

TEST(ClusterFile, TreesAndBlocksOfSlurm) {
  const ClusterFacts tree = facts_of("topology.conf");
  EXPECT_EQ(tree.nodes, 60u);
  EXPECT_EQ(tree.nodes_per_leaf, 16u);
  EXPECT_THAT(tree.assumed, Contains("leaf switches of 16 nodes, where some have 12"));
  const ClusterFacts blocks = facts_of("topology-block.conf");
  EXPECT_EQ(blocks.nodes, 36u);
  EXPECT_EQ(blocks.nodes_per_domain, 18u);
  const ClusterFacts yaml = facts_of("topology.yaml");
  EXPECT_EQ(yaml.nodes, 16u);
  EXPECT_EQ(yaml.nodes_per_leaf, 8u);
  EXPECT_THAT(yaml.ignored, Contains("1 more topologies"));
}

TEST(ClusterFile, SwitchesOfInfiniBand) {
  const ClusterFacts facts = facts_of("ibnetdiscover.txt");
  EXPECT_EQ(facts.nodes, 8u);
  EXPECT_EQ(facts.nics_per_node, 2u);
  EXPECT_EQ(facts.nic_bandwidth, 50e9);
  EXPECT_EQ(facts.nodes_per_leaf, 4u);
  EXPECT_EQ(facts.spines, 2u);
  EXPECT_EQ(facts.spine_link_bandwidth, 100e9);  // two cables of 4xNDR
}

ClusterFacts platform(const std::string& cluster) {
  return parse_cluster_file("<platform version='4.1'>" + cluster + "</platform>", "p.xml");
}

TEST(ClusterFile, TreesOfSimGrid) {
  ClusterFacts facts = facts_of("simgrid.xml");
  EXPECT_EQ(facts.nodes, 32u);
  const Topology topology = rewritten(cluster_of(facts, {.gpu = "H100"}));
  EXPECT_EQ(topology.node().nic_bandwidth(), 12.5e9);  // 100 GB/s by 8 NICs
  EXPECT_EQ(topology.fabric().nodes_per_unit(), 8u);
  EXPECT_EQ(topology.fabric().spines(), 4u);
  EXPECT_EQ(topology.fabric().spine_link_bandwidth(), 25e9);  // two cables, by 8 rails
  EXPECT_DOUBLE_EQ(topology.fabric().nic_latency(), 1e-6);    // two links
  EXPECT_DOUBLE_EQ(topology.fabric().hop_latency(), 500e-9);
}

TEST(ClusterFile, OtherNetworksOfSimGrid) {
  const FabricSpec torus = platform(
                               "<cluster radical='0-23' bw='8Gbps' lat='50us' topology='TORUS' "
                               "topo_parameters='4,3,2'/>")
                               .fabric;
  EXPECT_EQ(torus.dimensions(), "4x3x2");
  EXPECT_EQ(torus.torus_link_bandwidth(), 1e9);
  const FabricSpec dragonfly = platform(
                                   "<cluster radical='0-23' bw='1GBps' topology='DRAGONFLY' "
                                   "topo_parameters='3,4;2,1;2,2;2'/>")
                                   .fabric;
  EXPECT_EQ(dragonfly.routers_per_group(), 4u);
  EXPECT_EQ(dragonfly.global_link_bandwidth(), 4e9);
  EXPECT_EQ(dragonfly.local_link_bandwidth(), 2e9);
  const ClusterFacts flat =
      platform("<zone><cabinet radical='1,3-5' bw='2MiBps'/><host id='a'/><route/></zone>");
  EXPECT_EQ(flat.nodes, 5u);
  EXPECT_EQ(flat.node_bandwidth, 2 * 1024.0 * 1024.0);
  EXPECT_EQ(flat.fabric.kind(), "flat");
  EXPECT_THAT(flat.ignored, Contains("1 routes"));
}

TEST(ClusterFile, ProblemsOfSimGridHaveTheirPlace) {
  const auto problem = [](const std::string& cluster) {
    return error_of("<platform>" + cluster + "</platform>");
  };
  EXPECT_THAT(problem(""), HasSubstr("c:1:1: error: expected at least one element 'host'"));
  EXPECT_THAT(problem("<include file='x'/>"), HasSubstr("a platform in one file"));
  EXPECT_THAT(problem("<cluster radical='5-1'/>"), HasSubstr("c:1:20: error: expected numbers"));
  EXPECT_THAT(problem("<cluster radical='0-3' bw='1 parsec'/>"), HasSubstr("125MBps"));
  EXPECT_THAT(problem("<cluster radical='0-3' bw='1GBps' topology='FAT_TREE' "
                      "topo_parameters='2;4,4;1,2;1,1'/>"),
              HasSubstr("a network of 4 hosts, found 16 places"));
  EXPECT_THAT(problem("<cluster radical='0-3' bw='1GBps' topology='STAR' topo_parameters='1'/>"),
              HasSubstr("FAT_TREE"));
  ClusterFacts slow = platform("<host id='a'/>");
  slow.node_bandwidth = 125e6;
  EXPECT_THROW(cluster_of(slow, {.gpu = "H100"}), Error);
}

/// The cluster that the texts of some formats describe together.
Topology round_trip(const Topology& topology, const std::vector<WrittenFormat>& formats,
                    const std::string& gpu) {
  ClusterFacts facts;
  for (const WrittenFormat format : formats) {
    merge_facts(facts, parse_cluster_file(write_cluster_file(topology, format).text, "written"));
  }
  return rewritten(cluster_of(facts, {.gpu = gpu}));
}

Topology resolved(const std::string& yaml) {
  Topology topology;
  load_yaml(yaml, "c.yaml", topology);
  resolve(topology, SourceMap{});
  topology.clear_preset();
  return topology;
}

TEST(ClusterFile, AClusterIsTheSameAfterARoundTrip) {
  using enum WrittenFormat;
  const Topology dgx = resolved("{preset: dgx-h100, nodes: 96}");
  EXPECT_EQ(to_yaml(round_trip(dgx, {simgrid}, "")), to_yaml(dgx));
  EXPECT_THAT(write_cluster_file(dgx, simgrid).changed, testing::IsEmpty());
  for (const WrittenFormat tree : {slurm_conf, slurm_yaml}) {
    EXPECT_EQ(to_yaml(round_trip(dgx, {nccl, tree}, "")), to_yaml(dgx));
  }
  for (const char* fabric :
       {"{kind: torus, dimensions: 4x2x2, torus_link_bandwidth: 100 Gbps}",
        "{kind: dragonfly, nodes_per_router: 2, routers_per_group: 4, local_link_bandwidth: 800 "
        "Gbps, global_link_bandwidth: 400 Gbps}",
        "{kind: flat, nic_latency: 3 us, hop_latency: 1 us}",
        "{nodes_per_unit: 4, spines: 2, spine_link_bandwidth: 800 Gbps, units_per_pod: 2, cores: "
        "4, "
        "core_link_bandwidth: 400 Gbps}"}) {
    const Topology other =
        resolved(std::string("{preset: dgx-h200, nodes: 16, fabric: ") + fabric + "}");
    EXPECT_EQ(to_yaml(round_trip(other, {simgrid}, "")), to_yaml(other)) << fabric;
  }
}

TEST(ClusterFile, FilesOfOtherToolsAreTheSameAfterARoundTrip) {
  ClusterFacts facts = facts_of("nccl.xml");
  merge_facts(facts, facts_of("topology.conf"));
  const Topology read = rewritten(cluster_of(facts, {}));
  EXPECT_EQ(to_yaml(round_trip(read, {WrittenFormat::nccl, WrittenFormat::slurm_yaml}, "")),
            to_yaml(read));
}

TEST(ClusterFile, ValuesThatAFormatLacksAreNamed) {
  const Topology dgx = resolved("{preset: dgx-h200, nodes: 64}");
  const std::vector<std::string> lost = write_cluster_file(dgx, WrittenFormat::nccl).changed;
  EXPECT_THAT(lost, Contains("nodes: 64, read again as 1"));
  EXPECT_THAT(lost, Contains("node.gpu: H200, read again with --gpu H200"));
  const Topology ring = resolved(
      "{preset: dgx-h100, nodes: 4, fabric: {kind: ring, "
      "ring_link_bandwidth: 400 Gbps}}");
  EXPECT_THROW(write_cluster_file(ring, WrittenFormat::simgrid), Error);
  EXPECT_THROW(write_cluster_file(ring, WrittenFormat::slurm_conf), Error);
  const Topology amd = resolved("{preset: dgx-h100, nodes: 4, node: {gpu: MI300X}}");
  EXPECT_THROW(write_cluster_file(amd, WrittenFormat::nccl), Error);
}

TEST(ClusterFile, ANodeAndANetworkAreOneCluster) {
  ClusterFacts facts = facts_of("nccl.xml");
  merge_facts(facts, facts_of("topology.conf"));
  const Topology topology = rewritten(cluster_of(facts, {}));
  const Cluster cluster = build_cluster(topology, SourceMap{});
  EXPECT_EQ(cluster.nodes(), 60u);
  EXPECT_EQ(cluster.gpus(), 480u);
  EXPECT_EQ(cluster.gpu_model().name, "H100");
  EXPECT_EQ(topology.fabric().nodes_per_unit(), 16u);
  EXPECT_EQ(topology.fabric().spines(), 16u);
  EXPECT_THAT(facts.assumed, Contains(HasSubstr("without a bottleneck")));
}

TEST(ClusterFile, MissingFactsAreThoseOfThePresetOrOptions) {
  ClusterFacts facts = facts_of("nvidia-smi-topo.txt");
  const Topology topology = rewritten(cluster_of(facts, {.gpu = "A800", .nodes = 4}));
  EXPECT_EQ(topology.nodes(), 4u);
  EXPECT_EQ(topology.node().gpu(), "A800-12-nvlinks");
  EXPECT_EQ(topology.fabric().kind(), "flat");
  EXPECT_NEAR(topology.gpus(0).nvlink(), 300e9, 1);  // 200 GB/s by 8 links
  ClusterFacts slurm = facts_of("topology.conf");
  EXPECT_THROW(cluster_of(slurm, {}), Error);
  EXPECT_THROW(cluster_of(slurm, {.gpu = "H10"}), Error);
  EXPECT_THROW(merge_facts(slurm, facts_of("topology.yaml")), Error);
}

TEST(ClusterFile, ProblemsHaveTheirPlace) {
  EXPECT_THAT(
      error_of("<system><pci></system>"),
      HasSubstr("c:1:16: error: expected </pci> for the element of line 1, found </system>"));
  EXPECT_THAT(error_of("<system><pci><gpu sm=\"x\"/></pci></system>"),
              HasSubstr("c:1:19: error: expected a number"));
  EXPECT_THAT(error_of("<system><pci/></system>"), HasSubstr("at least one element 'gpu'"));
  EXPECT_THAT(error_of("SwitchName=a Nodes=n[1-\n"), HasSubstr("c:1:20: error: expected a list"));
  EXPECT_THAT(error_of("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1"), HasSubstr("c:2:20:"));
  EXPECT_THAT(error_of("SwitchName=a\n"), HasSubstr("'Nodes' or 'Switches'"));
  EXPECT_THAT(error_of("\tGPU0\tGPU1\nGPU0\t X \tNVx\n"), HasSubstr("c:2:10: error: expected NV"));
  EXPECT_THAT(error_of("nothing"), HasSubstr("expected a cluster of another tool"));
}

TEST(XmlTree, ElementsAttributesAndPlaces) {
  const std::string file = "f";
  const XmlElement root =
      parse_xml_tree({"<?xml version='1.0'?>\n<!-- a > b -->\n<a b='1 &amp; 2'>"
                      "text<c/></a>\n",
                      file});
  EXPECT_EQ(root.name, "a");
  EXPECT_EQ(root.value("b"), "1 & 2");
  ASSERT_EQ(root.children.size(), 1u);
  EXPECT_EQ(root.children[0].line, 3);
  EXPECT_EQ(root.children[0].column, 22);
  std::string deep;
  for (int i = 0; i < 300; ++i) deep += "<a>";
  EXPECT_THROW(parse_xml_tree({deep, file}), Error);
}

}  // namespace
}  // namespace orrery

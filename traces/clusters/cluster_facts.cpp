#include "traces/clusters/cluster_facts.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "core/error.hpp"
#include "topologies/builder.hpp"
#include "topologies/catalog.hpp"

namespace orrery {
namespace {

/// Least rate of a NIC that the schema of clusters allows.
constexpr double kLeastRate = 1e8;

/// NVLink connections of one GPU at the rate of the catalogue, by the data sheets.
struct LinkCount {
  std::string_view begins;  ///< beginning of the GPU's name
  std::uint32_t links;
};
constexpr std::array kLinkCounts{
    LinkCount{"V100", 6},   LinkCount{"A100", 12}, LinkCount{"A800", 8},  LinkCount{"H100", 18},
    LinkCount{"H800", 8},   LinkCount{"H200", 18}, LinkCount{"B200", 18}, LinkCount{"B300", 18},
    LinkCount{"GB200", 18}, LinkCount{"GB300", 18}};

const GpuSpec& known_gpu(const std::string& name) {
  for (const GpuSpec& each : gpu_catalog().gpus()) {
    if (each.name() == name) return each;
  }
  throw Error(ErrorKind::bad_input,
              fmt::format("expected a GPU of the catalogue (orrery list gpus), found '{}'{}", name,
                          did_you_mean(name, gpu_names())));
}

/// Returns the first preset with this GPU; nullptr if no preset has the GPU.
const TopologyPreset* preset_with(const std::string& gpu) {
  for (const TopologyPreset& each : preset_catalog().presets()) {
    if (each.node().gpu() == gpu) return &each;
  }
  return nullptr;
}

/// Describes a GPU of its own if its NVLink connections are not as many as the data sheet's.
void set_gpu(Topology& topology, ClusterFacts& facts, const std::string& name) {
  const GpuSpec& gpu = known_gpu(name);
  NodeSpec& node = *topology.mutable_node();
  node.set_gpu(name);
  const std::uint32_t usual = usual_nvlinks(name);
  if (!facts.knows_nvlinks || usual == 0 || usual == facts.nvlinks) return;
  GpuSpec& own = *topology.add_gpus();
  own = gpu;
  own.set_name(fmt::format("{}-{}-nvlinks", name, facts.nvlinks));
  own.set_nvlink(gpu.nvlink() * facts.nvlinks / usual);
  own.set_family(gpu.family());
  if (facts.nvlinks == 0) own.set_nvls(false);
  node.set_gpu(own.name());
  facts.assumed.push_back(
      fmt::format("{} with {} of {} NVLink connections", name, facts.nvlinks, usual));
}

void set_node(Topology& topology, ClusterFacts& facts, const TopologyPreset* preset) {
  NodeSpec& node = *topology.mutable_node();
  const auto or_preset = [&](std::uint32_t known, std::uint32_t usual, const char* name) {
    if (known > 0) return known;
    facts.assumed.push_back(fmt::format("{} {}", usual, name));
    return usual;
  };
  const std::uint32_t usual_gpus = preset == nullptr ? 8 : preset->node().gpus_per_node();
  node.set_gpus_per_node(or_preset(facts.gpus_per_node, usual_gpus, "GPUs a node"));
  const std::uint32_t usual_nics =
      preset == nullptr ? node.gpus_per_node() : preset->node().nics_per_node();
  node.set_nics_per_node(or_preset(facts.nics_per_node, usual_nics, "NICs a node"));
  double rate = facts.nic_bandwidth;
  if (rate <= 0) rate = facts.node_bandwidth / node.nics_per_node();
  if (rate <= 0) {
    rate = preset == nullptr ? 50e9 : preset->node().nic_bandwidth();
    facts.assumed.push_back(fmt::format("NICs of {:g} Gbit/s", rate * 8e-9));
  }
  if (rate < kLeastRate) {
    throw Error(ErrorKind::bad_input,
                fmt::format("expected NICs of at least {:g} Gbit/s, found {} a node of {:g} Gbit/s",
                            kLeastRate * 8e-9, node.nics_per_node(), rate * 8e-9));
  }
  node.set_nic_bandwidth(rate);
  if (preset != nullptr && preset->node().has_host_power()) {
    node.set_host_power(preset->node().host_power());
    facts.assumed.push_back(fmt::format("host power and price of {}", preset->name()));
    *topology.mutable_price() = preset->price();
  }
  if (facts.nodes_per_domain > 0) node.set_nvlink_domain(facts.nodes_per_domain);
}

/// Sets the fabric that a file states as a whole, divided among the rails.
void set_whole_fabric(Topology& topology, const ClusterFacts& facts) {
  const NodeSpec& node = topology.node();
  const double rails = std::min(node.nics_per_node(), node.gpus_per_node());
  FabricSpec& fabric = *topology.mutable_fabric();
  fabric = facts.fabric;
  if (fabric.has_spine_link_bandwidth()) {
    fabric.set_spine_link_bandwidth(fabric.spine_link_bandwidth() / rails);
  }
  if (fabric.has_core_link_bandwidth()) {
    fabric.set_core_link_bandwidth(fabric.core_link_bandwidth() / rails);
  }
  if (fabric.has_torus_link_bandwidth()) {
    fabric.set_torus_link_bandwidth(fabric.torus_link_bandwidth() / rails);
  }
  if (fabric.has_local_link_bandwidth()) {
    fabric.set_local_link_bandwidth(fabric.local_link_bandwidth() / rails);
    fabric.set_global_link_bandwidth(fabric.global_link_bandwidth() / rails);
  }
}

/// Two tiers if a file knows leaves, otherwise one switch. Spines that no file counts are as many
/// as a network without a bottleneck has.
void set_fabric(Topology& topology, ClusterFacts& facts) {
  if (facts.fabric.has_kind()) {
    set_whole_fabric(topology, facts);
    return;
  }
  FabricSpec& fabric = *topology.mutable_fabric();
  if (facts.nodes_per_leaf == 0 || facts.nodes_per_leaf >= topology.nodes()) {
    fabric.set_kind("flat");
    if (facts.nodes_per_leaf == 0) facts.assumed.emplace_back("a network without a bottleneck");
    return;
  }
  fabric.set_kind("fat-tree");
  fabric.set_nodes_per_unit(facts.nodes_per_leaf);
  const bool counted = facts.spines > 0 && facts.spine_link_bandwidth > 0;
  fabric.set_spines(counted ? facts.spines : facts.nodes_per_leaf);
  fabric.set_spine_link_bandwidth(counted ? facts.spine_link_bandwidth
                                          : topology.node().nic_bandwidth());
  if (!counted) {
    facts.assumed.push_back(
        fmt::format("{} spines for each rail, without a bottleneck", facts.nodes_per_leaf));
  }
}

template <class Value>
void merge_value(Value& into, const Value& more, const char* name) {
  if (more == Value{}) return;
  if (into != Value{} && into != more) {
    throw Error(ErrorKind::bad_input,
                fmt::format("expected files of one cluster, found two values of {}: {} and {}",
                            name, into, more));
  }
  into = more;
}

}  // namespace

std::uint32_t usual_nvlinks(const std::string& gpu) {
  for (const LinkCount& each : kLinkCounts) {
    if (gpu.starts_with(each.begins)) return each.links;
  }
  return 0;
}

void merge_facts(ClusterFacts& into, const ClusterFacts& more) {
  merge_value(into.gpu, more.gpu, "the GPU");
  merge_value(into.gpus_per_node, more.gpus_per_node, "GPUs a node");
  merge_value(into.nics_per_node, more.nics_per_node, "NICs a node");
  merge_value(into.nic_bandwidth, more.nic_bandwidth, "the NICs' rate");
  merge_value(into.node_bandwidth, more.node_bandwidth, "the rate of a node");
  merge_value(into.nvlinks, more.nvlinks, "NVLink connections");
  into.knows_nvlinks = into.knows_nvlinks || more.knows_nvlinks;
  merge_value(into.nodes, more.nodes, "the number of nodes");
  merge_value(into.nodes_per_leaf, more.nodes_per_leaf, "nodes of a switch");
  merge_value(into.spines, more.spines, "the number of spines");
  merge_value(into.spine_link_bandwidth, more.spine_link_bandwidth, "the spines' rate");
  merge_value(into.nodes_per_domain, more.nodes_per_domain, "nodes of an NVLink domain");
  if (more.fabric.has_kind()) {
    if (into.fabric.has_kind()) {
      throw Error(ErrorKind::bad_input,
                  "expected one file that states the whole network, found two");
    }
    into.fabric = more.fabric;
  }
  const auto append = [](std::vector<std::string>& to, const std::vector<std::string>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(into.read, more.read);
  append(into.assumed, more.assumed);
  append(into.ignored, more.ignored);
}

Topology cluster_of(ClusterFacts& facts, const ClusterChoices& choices) {
  const std::string gpu = choices.gpu.empty() ? facts.gpu : choices.gpu;
  if (gpu.empty()) {
    throw Error(ErrorKind::bad_input,
                "expected a file that names the GPUs (NCCL's or nvidia-smi's topology) or --gpu "
                "NAME (orrery list gpus), found neither");
  }
  Topology topology;
  set_gpu(topology, facts, gpu);
  std::uint32_t nodes = choices.nodes > 0 ? choices.nodes : facts.nodes;
  if (nodes == 0) nodes = facts.nodes_per_domain;
  if (nodes == 0) facts.assumed.emplace_back("1 node");
  topology.set_nodes(std::max(1u, nodes));
  set_node(topology, facts, preset_with(gpu));
  set_fabric(topology, facts);
  return topology;
}

}  // namespace orrery

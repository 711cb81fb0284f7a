#include "topologies/machine.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"

namespace orrery {

MachineProfile load_machine(const std::string& path) {
  MachineProfile machine;
  try {
    load_yaml_file(path, machine);
  } catch (const Error& error) {
    if (!error.source_place()) throw;
    throw Error(*error.source_place(),
                error.message() + "; expected a profile that `orrery calibrate -o` wrote");
  }
  fill_defaults(machine);
  return machine;
}

const RankLinks& links_among(const MachineProfile& machine, std::uint32_t ranks) {
  ensure(machine.links_size() > 0, "a machine's profile has links");
  const auto distance = [ranks](const RankLinks& links) {
    return std::abs(static_cast<double>(links.ranks()) - static_cast<double>(ranks));
  };
  return *std::min_element(
      machine.links().begin(), machine.links().end(),
      [&](const RankLinks& a, const RankLinks& b) { return distance(a) < distance(b); });
}

Topology machine_topology(const MachineProfile& machine, std::uint32_t ranks) {
  const RankLinks& links = links_among(machine, ranks);
  Topology topology;
  topology.set_nodes(ranks);
  NodeSpec& node = *topology.mutable_node();
  node.set_gpu(machine.processor().name());
  node.set_gpus_per_node(1);
  node.set_nics_per_node(1);
  node.set_nic_bandwidth(links.bandwidth());
  node.set_host_power(0);  // the processor's power is all that is known
  FabricSpec& fabric = *topology.mutable_fabric();
  fabric.set_kind("flat");
  fabric.set_nic_latency(links.latency());
  fabric.set_nvlink_latency(0);
  fabric.set_hop_latency(0);
  *topology.add_gpus() = machine.processor();
  fill_defaults(topology);
  return topology;
}

}  // namespace orrery

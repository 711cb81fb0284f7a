#include "topologies/cluster.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/random.hpp"

namespace orrery {

FlopPerSecond GpuModel::peak(Precision precision) const {
  constexpr std::array<std::string_view, 5> kNames = {"fp32", "tf32", "bf16", "fp8", "fp4"};
  const std::array rates = {fp32, tf32, bf16, fp8, fp4};
  const auto index = static_cast<std::size_t>(precision);
  ensure(index < rates.size(), "a known precision");
  if (rates[index].value > 0) return rates[index];
  throw Error(ErrorKind::bad_input,
              fmt::format("GPU {} does not support {}", name, kNames[index]));
}

// Links in the order of their ids: NVLink out and in per GPU, NIC out and in per node and rail,
// then those of the fabric. Fat-trees: leaf up per unit, rail and spine, then spine up per pod,
// rail, spine and core; then the same down. Rings and tori: next per dimension, node and rail, then
// back. Dragonflies: local per router, rail and router of the group, then global per pair of groups
// and rail.
Cluster::Cluster(GpuModel gpu, Shape shape, Price price)
    : gpu_(std::move(gpu)), shape_(shape), price_(std::move(price)) {
  nic_base_ = 2 * gpus();
  fabric_base_ = nic_base_ + 2 * shape_.nodes * shape_.nics_per_node;
  const std::uint32_t directions = shape_.fabric == FabricKind::dragonfly ? 1 : 2;
  link_count_ = fabric_base_ + directions * fabric_links();
}

namespace {

std::uint32_t parts_of(std::uint32_t all, std::uint32_t each) { return (all + each - 1) / each; }

/// Returns the place of a node in a dimension of a torus.
std::uint32_t place_in(const std::array<std::uint32_t, 3>& torus, std::uint32_t node,
                       std::size_t dimension) {
  for (std::size_t before = 0; before < dimension; ++before) node /= torus[before];
  return node % torus[dimension];
}

}  // namespace

std::uint32_t Cluster::units() const {
  if (shape_.fabric != FabricKind::fat_tree) return 1;
  return parts_of(shape_.nodes, shape_.nodes_per_unit);
}

std::uint32_t Cluster::unit_of(NodeId node) const {
  return shape_.fabric == FabricKind::fat_tree ? node.value / shape_.nodes_per_unit : 0;
}

std::uint32_t Cluster::pods() const {
  return shape_.units_per_pod == 0 ? 1 : parts_of(units(), shape_.units_per_pod);
}

std::uint32_t Cluster::pod_of(std::uint32_t unit) const {
  return shape_.units_per_pod == 0 ? 0 : unit / shape_.units_per_pod;
}

std::uint32_t Cluster::groups() const {
  if (shape_.fabric != FabricKind::dragonfly) return 1;
  return parts_of(shape_.nodes, shape_.nodes_per_router * shape_.routers_per_group);
}

std::uint32_t Cluster::lower_links() const {
  switch (shape_.fabric) {
    case FabricKind::fat_tree: return units() * rails() * shape_.spines;
    case FabricKind::flat: return 0;
    case FabricKind::ring: return nodes() * rails();
    case FabricKind::torus: return nodes() * rails() * 3;
    case FabricKind::dragonfly:
      return groups() * shape_.routers_per_group * rails() * shape_.routers_per_group;
  }
  return 0;
}

std::uint32_t Cluster::fabric_links() const {
  if (shape_.fabric == FabricKind::dragonfly) {
    return lower_links() + groups() * rails() * groups();
  }
  const std::uint32_t upper =
      shape_.units_per_pod == 0 ? 0 : pods() * rails() * shape_.spines * shape_.cores;
  return lower_links() + upper;
}

Cluster::Switches Cluster::switches() const {
  if (shape_.fabric != FabricKind::fat_tree) return {};
  const std::uint32_t spines = shape_.spines * shape_.cables;
  return {.leaves = units() * rails() * shape_.planes,
          .spines = spines * pods(),
          .paths = spines,
          .cores = shape_.units_per_pod == 0 ? 0 : spines * shape_.cores};
}

std::int64_t shorter_way(std::uint32_t from, std::uint32_t to, std::uint32_t size) {
  const std::int64_t onward = (std::int64_t{to} + size - from) % size;
  const std::int64_t backward = size - onward;
  return onward <= backward ? onward : -backward;
}

std::uint64_t three_tier_switches(std::uint64_t nics, std::uint32_t ports) {
  const auto for_ports = [ports](std::uint64_t all) { return (all + ports - 1) / ports; };
  return 2 * for_ports(2 * nics) + for_ports(nics);
}

std::uint32_t Cluster::rail_of(GpuId gpu) const {
  const std::uint32_t local = gpu.value % shape_.gpus_per_node;
  if (shape_.nics_per_node == shape_.gpus_per_node) return local;
  return local * shape_.nics_per_node / shape_.gpus_per_node;
}

const std::string& Cluster::gpu_kind(NodeId node) const {
  static const std::string none;
  std::uint32_t end = 0;
  for (const NodesOfKind& each : shape_.kinds) {
    end += each.nodes;
    if (node.value < end) return each.kind;
  }
  ensure(shape_.kinds.empty(), "the kinds of a cluster name those of all nodes");
  return none;
}

std::vector<std::string> Cluster::gpu_kinds() const {
  std::vector<std::string> kinds;
  for (const NodesOfKind& each : shape_.kinds) {
    if (std::find(kinds.begin(), kinds.end(), each.kind) == kinds.end()) {
      kinds.push_back(each.kind);
    }
  }
  return kinds;
}

LinkId Cluster::nvlink_out(GpuId gpu) const { return {gpu.value}; }
LinkId Cluster::nvlink_in(GpuId gpu) const { return {gpus() + gpu.value}; }

LinkId Cluster::nic_out(NodeId node, std::uint32_t rail) const {
  return {nic_base_ + node.value * rails() + rail};
}
LinkId Cluster::nic_in(NodeId node, std::uint32_t rail) const {
  return {nic_base_ + (nodes() + node.value) * rails() + rail};
}

LinkId Cluster::leaf_up(std::uint32_t unit, std::uint32_t rail, std::uint32_t spine) const {
  return {fabric_base_ + (unit * rails() + rail) * shape_.spines + spine};
}
LinkId Cluster::leaf_down(std::uint32_t unit, std::uint32_t rail, std::uint32_t spine) const {
  return {leaf_up(unit, rail, spine).value + fabric_links()};
}

LinkId Cluster::core_up(std::uint32_t pod, std::uint32_t rail, std::uint32_t spine,
                        std::uint32_t core) const {
  return {fabric_base_ + lower_links() +
          ((pod * rails() + rail) * shape_.spines + spine) * shape_.cores + core};
}
LinkId Cluster::core_down(std::uint32_t pod, std::uint32_t rail, std::uint32_t spine,
                          std::uint32_t core) const {
  return {core_up(pod, rail, spine, core).value + fabric_links()};
}

LinkId Cluster::torus_link(NodeId node, std::uint32_t rail, std::uint32_t dimension,
                           bool next) const {
  return {fabric_base_ + (next ? 0 : fabric_links()) +
          (dimension * nodes() + node.value) * rails() + rail};
}

LinkId Cluster::group_local(std::uint32_t router, std::uint32_t rail, std::uint32_t to) const {
  return {fabric_base_ + (router * rails() + rail) * shape_.routers_per_group + to};
}
LinkId Cluster::group_global(std::uint32_t from, std::uint32_t rail, std::uint32_t to) const {
  return {fabric_base_ + lower_links() + (from * rails() + rail) * groups() + to};
}

LinkId Cluster::ring_next(NodeId node, std::uint32_t rail) const {
  return {fabric_base_ + node.value * rails() + rail};
}
LinkId Cluster::ring_back(NodeId node, std::uint32_t rail) const {
  return {fabric_base_ + (nodes() + node.value) * rails() + rail};
}

LinkKind Cluster::kind_of(LinkId id) const {
  ensure(id.value < link_count_, "a link of this cluster");
  if (id.value < nic_base_) return id.value < gpus() ? LinkKind::nvlink_out : LinkKind::nvlink_in;
  if (id.value < fabric_base_) {
    const bool out = id.value - nic_base_ < nodes() * rails();
    return out ? LinkKind::nic_out : LinkKind::nic_in;
  }
  const std::uint32_t index = id.value - fabric_base_;
  const bool first = index < fabric_links();
  const bool lower = (first ? index : index - fabric_links()) < lower_links();
  switch (shape_.fabric) {
    case FabricKind::ring: return first ? LinkKind::ring_next : LinkKind::ring_back;
    case FabricKind::torus: return first ? LinkKind::torus_next : LinkKind::torus_back;
    case FabricKind::dragonfly: return lower ? LinkKind::group_local : LinkKind::group_global;
    default: break;
  }
  if (!lower) return first ? LinkKind::core_up : LinkKind::core_down;
  return first ? LinkKind::leaf_up : LinkKind::leaf_down;
}

Link Cluster::link(LinkId id) const {
  const LinkKind kind = kind_of(id);
  switch (kind) {
    case LinkKind::nvlink_out:
    case LinkKind::nvlink_in:
      // PCIe connects the GPUs of a node without NVLink.
      return {kind, gpu_.nvlink.value > 0 ? gpu_.nvlink : gpu_.pcie};
    case LinkKind::nic_out:
    case LinkKind::nic_in: return {kind, shape_.nic_bandwidth};
    case LinkKind::core_up:
    case LinkKind::core_down:
    case LinkKind::group_global: return {kind, shape_.upper_link_bandwidth};
    default: return {kind, shape_.spine_link_bandwidth};
  }
}

std::string Cluster::link_name(LinkId id) const {
  switch (kind_of(id)) {
    case LinkKind::nvlink_out:
    case LinkKind::nvlink_in: {
      const bool out = id.value < gpus();
      const std::uint32_t gpu = out ? id.value : id.value - gpus();
      return fmt::format("node{}/gpu{} {}", gpu / shape_.gpus_per_node,
                         gpu % shape_.gpus_per_node, out ? "out" : "in");
    }
    case LinkKind::nic_out:
    case LinkKind::nic_in: {
      const std::uint32_t all = nodes() * rails();
      const std::uint32_t index = id.value - nic_base_;
      const std::uint32_t nic = index % all;
      return fmt::format("node{}/nic{} {}", nic / rails(), nic % rails(),
                         index < all ? "out" : "in");
    }
    default: return fabric_link_name(id);
  }
}

std::string Cluster::fabric_link_name(LinkId id) const {
  const std::uint32_t index = id.value - fabric_base_;
  const bool first = index < fabric_links();
  const std::uint32_t port = first ? index : index - fabric_links();
  const LinkKind kind = kind_of(id);
  const std::uint32_t spines = shape_.spines, routers = shape_.routers_per_group;
  const std::uint32_t above = port - std::min(port, lower_links());
  switch (kind) {
    case LinkKind::ring_next:
    case LinkKind::ring_back:
      return fmt::format("node{}/ring{} {}", port / rails(), port % rails(),
                         first ? "next" : "back");
    case LinkKind::torus_next:
    case LinkKind::torus_back:
      return fmt::format("node{}/torus{} {} {}", port / rails() % nodes(), port % rails(),
                         first ? "next" : "back", port / rails() / nodes());
    case LinkKind::group_local:
      return fmt::format("router{}/local{} to {}", port / routers / rails(),
                         port / routers % rails(), port % routers);
    case LinkKind::group_global:
      return fmt::format("group{}/global{} to {}", above / groups() / rails(),
                         above / groups() % rails(), above % groups());
    case LinkKind::core_up:
    case LinkKind::core_down: {
      const std::uint32_t plane = above / shape_.cores / spines;
      return fmt::format("pod{}/spine{}.{} {} {}", plane / rails(), plane % rails(),
                         above / shape_.cores % spines, first ? "up" : "down",
                         above % shape_.cores);
    }
    default: break;
  }
  const std::uint32_t leaf = port / spines;
  return fmt::format("unit{}/leaf{} {} {}", leaf / rails(), leaf % rails(), first ? "up" : "down",
                     port % spines);
}

bool Cluster::is_relayed(GpuId from, GpuId to) const {
  return shape_.fabric != FabricKind::flat && rail_of(from) != rail_of(to);
}

/// The destination chooses the spine, as in InfiniBand's fat-tree routing: any shift of nodes by a
/// constant uses every spine equally. ECMP uses a hash.
std::uint32_t Cluster::spine_of(NodeId from, NodeId to, std::uint32_t rail) const {
  if (shape_.transport != Transport::ecmp) return to.value % shape_.spines;
  const std::uint64_t ends = (std::uint64_t{from.value} << 32 | to.value) * rails() + rail;
  return static_cast<std::uint32_t>(Rng(shape_.hash_seed ^ ends * 0x9E3779B97F4A7C15ull)
                                        .below(shape_.spines));
}

std::uint32_t Cluster::core_of(NodeId to) const {
  return to.value / shape_.spines % shape_.cores;
}

void Cluster::route_ring(NodeId from, NodeId to, std::uint32_t rail,
                         std::vector<LinkId>& out) const {
  const std::int64_t steps = shorter_way(from.value, to.value, nodes());
  std::uint32_t at = from.value;
  for (std::int64_t left = std::abs(steps); left > 0; --left) {
    out.push_back(steps > 0 ? ring_next({at}, rail) : ring_back({at}, rail));
    at = (at + (steps > 0 ? 1 : nodes() - 1)) % nodes();
  }
}

void Cluster::route_torus(NodeId from, NodeId to, std::uint32_t rail,
                          std::vector<LinkId>& out) const {
  std::uint32_t at = from.value, stride = 1;
  for (std::uint32_t dimension = 0; dimension < shape_.torus.size(); ++dimension) {
    const std::uint32_t size = shape_.torus[dimension];
    std::uint32_t here = place_in(shape_.torus, at, dimension);
    const std::uint32_t there = place_in(shape_.torus, to.value, dimension);
    const bool next = shorter_way(here, there, size) > 0;
    while (here != there) {
      out.push_back(torus_link({at}, rail, dimension, next));
      const std::uint32_t reached = (here + (next ? 1 : size - 1)) % size;
      at += (reached - here) * stride;  // modulo 2^32, like the difference
      here = reached;
    }
    stride *= size;
  }
}

void Cluster::route_dragonfly(NodeId from, NodeId to, std::uint32_t rail,
                              std::vector<LinkId>& out) const {
  const std::uint32_t each = shape_.routers_per_group;
  std::uint32_t at = from.value / shape_.nodes_per_router;
  const std::uint32_t there = to.value / shape_.nodes_per_router;
  const std::uint32_t group = at / each, destination = there / each;
  if (group != destination) {
    const std::uint32_t gateway = destination % each;
    if (at % each != gateway) out.push_back(group_local(at, rail, gateway));
    out.push_back(group_global(group, rail, destination));
    at = destination * each + group % each;
  }
  if (at != there) out.push_back(group_local(at, rail, there % each));
}

void Cluster::route_fabric(NodeId from, NodeId to, std::uint32_t rail,
                           std::vector<LinkId>& out) const {
  switch (shape_.fabric) {
    case FabricKind::flat: return;
    case FabricKind::ring: return route_ring(from, to, rail, out);
    case FabricKind::torus: return route_torus(from, to, rail, out);
    case FabricKind::dragonfly: return route_dragonfly(from, to, rail, out);
    case FabricKind::fat_tree: break;
  }
  const std::uint32_t unit = unit_of(from), destination = unit_of(to);
  if (unit == destination) return;
  const std::uint32_t spine = spine_of(from, to, rail);
  out.push_back(leaf_up(unit, rail, spine));
  if (pod_of(unit) != pod_of(destination)) {
    out.push_back(core_up(pod_of(unit), rail, spine, core_of(to)));
    out.push_back(core_down(pod_of(destination), rail, spine, core_of(to)));
  }
  out.push_back(leaf_down(destination, rail, spine));
}

void Cluster::route(GpuId from, GpuId to, std::vector<LinkId>& out) const {
  if (from == to) return;
  if (domain_of(from) == domain_of(to)) {
    out.push_back(nvlink_out(from));
    out.push_back(nvlink_in(to));
    return;
  }
  const NodeId source = node_of(from), destination = node_of(to);
  const std::uint32_t rail = rail_of(to);
  if (is_relayed(from, to)) {
    const GpuId relay = {source.value * shape_.gpus_per_node + to.value % shape_.gpus_per_node};
    out.push_back(nvlink_out(from));
    out.push_back(nvlink_in(relay));
  }
  // Only a flat fabric connects the rails: elsewhere the flow leaves on the destination's rail.
  const bool flat = shape_.fabric == FabricKind::flat;
  out.push_back(nic_out(source, flat ? rail_of(from) : rail));
  route_fabric(source, destination, rail, out);
  out.push_back(nic_in(destination, rail));
}

Seconds Cluster::latency(GpuId from, GpuId to) const {
  if (from == to) return {0};
  if (domain_of(from) == domain_of(to)) return shape_.nvlink_latency;
  const NodeId source = node_of(from), destination = node_of(to);
  Seconds total = shape_.nic_latency;
  if (is_relayed(from, to)) total += shape_.nvlink_latency;
  return total + shape_.hop_latency * static_cast<double>(further_switches(source, destination));
}

/// The first switch is in the NIC's latency. In rings and tori the nodes are the switches.
std::int64_t Cluster::further_switches(NodeId from, NodeId to) const {
  switch (shape_.fabric) {
    case FabricKind::flat: return 0;
    case FabricKind::ring: return std::abs(shorter_way(from.value, to.value, nodes())) - 1;
    case FabricKind::torus: {
      std::int64_t links = -1;
      for (std::size_t dimension = 0; dimension < shape_.torus.size(); ++dimension) {
        links += std::abs(shorter_way(place_in(shape_.torus, from.value, dimension),
                                      place_in(shape_.torus, to.value, dimension),
                                      shape_.torus[dimension]));
      }
      return links;
    }
    case FabricKind::dragonfly: {
      std::vector<LinkId> links;
      route_dragonfly(from, to, 0, links);
      return static_cast<std::int64_t>(links.size());
    }
    case FabricKind::fat_tree: break;
  }
  // Over a spine there are two more switches, over a core four.
  if (unit_of(from) == unit_of(to)) return 0;
  return pod_of(unit_of(from)) == pod_of(unit_of(to)) ? 2 : 4;
}

}  // namespace orrery

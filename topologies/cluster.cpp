#include "topologies/cluster.hpp"

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
// then in fat-trees leaf up and down per unit, rail and spine, in rings next and back per node and
// rail.
Cluster::Cluster(GpuModel gpu, Shape shape, Price price)
    : gpu_(std::move(gpu)), shape_(shape), price_(price) {
  nic_base_ = 2 * gpus();
  fabric_base_ = nic_base_ + 2 * shape_.nodes * shape_.nics_per_node;
  link_count_ = fabric_base_ + 2 * fabric_links();
}

std::uint32_t Cluster::units() const {
  if (shape_.fabric != FabricKind::fat_tree) return 1;
  return (shape_.nodes + shape_.nodes_per_unit - 1) / shape_.nodes_per_unit;
}

std::uint32_t Cluster::unit_of(NodeId node) const {
  return shape_.fabric == FabricKind::fat_tree ? node.value / shape_.nodes_per_unit : 0;
}

std::uint32_t Cluster::fabric_links() const {
  switch (shape_.fabric) {
    case FabricKind::fat_tree: return units() * rails() * shape_.spines;
    case FabricKind::flat: return 0;
    case FabricKind::ring: return nodes() * rails();
  }
  return 0;
}

Cluster::Switches Cluster::switches() const {
  if (shape_.fabric != FabricKind::fat_tree) return {};
  const std::uint32_t spines = shape_.spines * shape_.cables;
  return {.leaves = units() * rails() * shape_.planes, .spines = spines, .paths = spines};
}

std::uint64_t three_tier_switches(std::uint64_t nics, std::uint32_t ports) {
  const auto for_ports = [ports](std::uint64_t all) { return (all + ports - 1) / ports; };
  return 2 * for_ports(2 * nics) + for_ports(nics);
}

std::uint32_t Cluster::rail_of(GpuId gpu) const {
  const std::uint32_t local = gpu.value % shape_.gpus_per_node;
  return local * shape_.nics_per_node / shape_.gpus_per_node;
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
  return {fabric_base_ + ((units() + unit) * rails() + rail) * shape_.spines + spine};
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
  const bool first = id.value - fabric_base_ < fabric_links();
  if (shape_.fabric == FabricKind::ring) {
    return first ? LinkKind::ring_next : LinkKind::ring_back;
  }
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
    case LinkKind::leaf_up:
    case LinkKind::leaf_down:
    case LinkKind::ring_next:
    case LinkKind::ring_back: break;
  }
  return {kind, shape_.spine_link_bandwidth};
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
    case LinkKind::leaf_up:
    case LinkKind::leaf_down:
    case LinkKind::ring_next:
    case LinkKind::ring_back: break;
  }
  return fabric_link_name(id);
}

std::string Cluster::fabric_link_name(LinkId id) const {
  const std::uint32_t index = id.value - fabric_base_;
  const std::uint32_t port = index % fabric_links();
  const bool first = index < fabric_links();
  if (shape_.fabric == FabricKind::ring) {
    return fmt::format("node{}/ring{} {}", port / rails(), port % rails(),
                       first ? "next" : "back");
  }
  const std::uint32_t leaf = port / shape_.spines;
  return fmt::format("unit{}/leaf{} {} {}", leaf / rails(), leaf % rails(), first ? "up" : "down",
                     port % shape_.spines);
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

std::int64_t Cluster::ring_steps(NodeId from, NodeId to) const {
  const std::int64_t onward = (std::int64_t{to.value} + nodes() - from.value) % nodes();
  const std::int64_t backward = nodes() - onward;
  return onward <= backward ? onward : -backward;
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
  out.push_back(nic_out(source, is_relayed(from, to) ? rail : rail_of(from)));
  if (unit_of(source) != unit_of(destination)) {
    const std::uint32_t spine = spine_of(source, destination, rail);
    out.push_back(leaf_up(unit_of(source), rail, spine));
    out.push_back(leaf_down(unit_of(destination), rail, spine));
  }
  if (shape_.fabric == FabricKind::ring) {
    const std::int64_t steps = ring_steps(source, destination);
    std::uint32_t at = source.value;
    for (std::int64_t left = std::abs(steps); left > 0; --left) {
      out.push_back(steps > 0 ? ring_next({at}, rail) : ring_back({at}, rail));
      at = (at + (steps > 0 ? 1 : nodes() - 1)) % nodes();
    }
  }
  out.push_back(nic_in(destination, rail));
}

Seconds Cluster::latency(GpuId from, GpuId to) const {
  if (from == to) return {0};
  if (domain_of(from) == domain_of(to)) return shape_.nvlink_latency;
  const NodeId source = node_of(from), destination = node_of(to);
  Seconds total = shape_.nic_latency;
  if (is_relayed(from, to)) total += shape_.nvlink_latency;
  // A route over the spine has two more switches: the spine and the destination's leaf.
  if (unit_of(source) != unit_of(destination)) total += 2.0 * shape_.hop_latency;
  if (shape_.fabric == FabricKind::ring) {
    const auto hops = static_cast<double>(std::abs(ring_steps(source, destination)));
    total += shape_.hop_latency * (hops - 1);
  }
  return total;
}

}  // namespace orrery

#include "topologies/cluster.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "core/error.hpp"

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
// leaf up and down per unit, rail and spine.
Cluster::Cluster(GpuModel gpu, Shape shape, Price price)
    : gpu_(std::move(gpu)), shape_(shape), price_(price) {
  nic_base_ = 2 * gpus();
  leaf_base_ = nic_base_ + 2 * shape_.nodes * shape_.nics_per_node;
  link_count_ = leaf_base_ + 2 * units() * rails() * shape_.spines;
}

std::uint32_t Cluster::units() const {
  return (shape_.nodes + shape_.nodes_per_unit - 1) / shape_.nodes_per_unit;
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
  return {leaf_base_ + (unit * rails() + rail) * shape_.spines + spine};
}
LinkId Cluster::leaf_down(std::uint32_t unit, std::uint32_t rail, std::uint32_t spine) const {
  return {leaf_base_ + ((units() + unit) * rails() + rail) * shape_.spines + spine};
}

Link Cluster::link(LinkId id) const {
  ensure(id.value < link_count_, "a link of this cluster");
  if (id.value < nic_base_) {
    // Without NVLink the GPUs of a node talk over PCIe.
    const BytesPerSecond bandwidth = gpu_.nvlink.value > 0 ? gpu_.nvlink : gpu_.pcie;
    return {id.value < gpus() ? LinkKind::nvlink_out : LinkKind::nvlink_in, bandwidth};
  }
  if (id.value < leaf_base_) {
    const bool out = id.value - nic_base_ < nodes() * rails();
    return {out ? LinkKind::nic_out : LinkKind::nic_in, shape_.nic_bandwidth};
  }
  const bool up = id.value - leaf_base_ < units() * rails() * shape_.spines;
  return {up ? LinkKind::leaf_up : LinkKind::leaf_down, shape_.spine_link_bandwidth};
}

std::string Cluster::link_name(LinkId id) const {
  switch (link(id).kind) {
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
    case LinkKind::leaf_down: break;
  }
  const std::uint32_t all = units() * rails() * shape_.spines;
  const std::uint32_t index = id.value - leaf_base_;
  const std::uint32_t port = index % all;
  const std::uint32_t leaf = port / shape_.spines;
  return fmt::format("unit{}/leaf{} {} {}", leaf / rails(), leaf % rails(),
                     index < all ? "up" : "down", port % shape_.spines);
}

void Cluster::route(GpuId from, GpuId to, std::vector<LinkId>& out) const {
  if (from == to) return;
  const NodeId source = node_of(from), destination = node_of(to);
  if (source == destination) {
    out.push_back(nvlink_out(from));
    out.push_back(nvlink_in(to));
    return;
  }
  const std::uint32_t rail = rail_of(to);
  if (rail_of(from) != rail) {
    const GpuId relay = {source.value * shape_.gpus_per_node + to.value % shape_.gpus_per_node};
    out.push_back(nvlink_out(from));
    out.push_back(nvlink_in(relay));
  }
  out.push_back(nic_out(source, rail));
  if (unit_of(source) != unit_of(destination)) {
    // As InfiniBand's fat-tree routing does, the destination decides: any shift of nodes by a
    // constant uses every spine alike.
    const std::uint32_t spine = destination.value % shape_.spines;
    out.push_back(leaf_up(unit_of(source), rail, spine));
    out.push_back(leaf_down(unit_of(destination), rail, spine));
  }
  out.push_back(nic_in(destination, rail));
}

Seconds Cluster::latency(GpuId from, GpuId to) const {
  if (from == to) return {0};
  const NodeId source = node_of(from), destination = node_of(to);
  if (source == destination) return shape_.nvlink_latency;
  Seconds total = shape_.nic_latency;
  if (rail_of(from) != rail_of(to)) total += shape_.nvlink_latency;
  // Over the spine there are two switches more: the spine and the destination's leaf.
  if (unit_of(source) != unit_of(destination)) total += 2.0 * shape_.hop_latency;
  return total;
}

}  // namespace orrery

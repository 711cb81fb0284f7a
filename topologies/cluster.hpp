// The cluster as everything above sees it: an immutable description with dense ids and arithmetic
// routes. Built once by builder.hpp; shared by reference; safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "core/units.hpp"

namespace orrery {

enum class Precision { fp32, tf32, bf16, fp8, fp4 };

/// A GPU model: dense peak rates, both directions counted separately.
struct GpuModel {
  std::string name;
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  FlopPerSecond fp32, tf32, bf16, fp8, fp4;  ///< 0: not supported
  BytesPerSecond nvlink;                     ///< one direction, all links; 0: none
  BytesPerSecond pcie;                       ///< one direction
  Watts idle_power, max_power;

  FlopPerSecond peak(Precision precision) const;  ///< throws bad_input if not supported
};

/// A directed link. Capacity is shared by all flows on it.
enum class LinkKind : std::uint8_t { nvlink_out, nvlink_in, nic_out, nic_in, leaf_up, leaf_down };
struct Link {
  LinkKind kind;
  BytesPerSecond bandwidth;
};

struct Price {
  DollarsPerSecond per_gpu;
  double pue = 1;  ///< facility power over IT power
};

/// Homogeneous rail-optimised two-tier fat-tree. Links are numbered by kind and position, so
/// that ids and routes are computed, never stored per pair.
class Cluster {
 public:
  struct Shape {
    std::uint32_t nodes, gpus_per_node, nics_per_node;
    std::uint32_t nodes_per_unit, spines;
    BytesPerSecond nic_bandwidth, spine_link_bandwidth;
    Seconds nvlink_latency, nic_latency, hop_latency;
    Watts host_power;
  };
  Cluster(GpuModel gpu, Shape shape, Price price);

  const GpuModel& gpu_model() const { return gpu_; }
  const Shape& shape() const { return shape_; }
  const Price& price() const { return price_; }

  std::uint32_t gpus() const { return shape_.nodes * shape_.gpus_per_node; }
  std::uint32_t nodes() const { return shape_.nodes; }
  std::uint32_t units() const;  ///< scalable units, the last one possibly not full
  std::uint32_t rails() const { return shape_.nics_per_node; }
  std::uint32_t links() const { return link_count_; }

  NodeId node_of(GpuId gpu) const { return {gpu.value / shape_.gpus_per_node}; }
  std::uint32_t unit_of(NodeId node) const { return node.value / shape_.nodes_per_unit; }
  /// The NIC, and so the rail, that serves a GPU.
  std::uint32_t rail_of(GpuId gpu) const;

  Link link(LinkId id) const;
  std::string link_name(LinkId id) const;  ///< "node3/nic5 out", "unit0/leaf2 up 7"
  LinkId nvlink_out(GpuId gpu) const;
  LinkId nvlink_in(GpuId gpu) const;
  LinkId nic_out(NodeId node, std::uint32_t rail) const;
  LinkId nic_in(NodeId node, std::uint32_t rail) const;
  LinkId leaf_up(std::uint32_t unit, std::uint32_t rail, std::uint32_t spine) const;
  LinkId leaf_down(std::uint32_t unit, std::uint32_t rail, std::uint32_t spine) const;

  /// Appends the links from one GPU to another, in order. Within a node: NVLink. Between nodes:
  /// NVLink to the local GPU of the destination's rail if the rails differ, NIC, leaf, and over
  /// one spine if the units differ (chosen by the destination node, as InfiniBand's fat-tree
  /// routing does: one flow, one path). Nothing if both are the same GPU.
  void route(GpuId from, GpuId to, std::vector<LinkId>& out) const;
  Seconds latency(GpuId from, GpuId to) const;

 private:
  GpuModel gpu_;
  Shape shape_;
  Price price_;
  std::uint32_t nic_base_, leaf_base_, link_count_;
};

}  // namespace orrery

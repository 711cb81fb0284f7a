// The cluster as everything above sees it: an immutable description with dense ids and arithmetic
// routes. Built once by builder.hpp; shared by reference; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
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
  bool nvls = false;  ///< its NVLink switches add up and multiply (NVLink SHARP)
  std::string family = {};  ///< whose shares of its rates kernels reach: a kernel profile

  FlopPerSecond peak(Precision precision) const;  ///< throws bad_input if not supported
};

/// A directed link. Capacity is shared by all flows on it.
enum class LinkKind : std::uint8_t {
  nvlink_out, nvlink_in, nic_out, nic_in, leaf_up, leaf_down, ring_next, ring_back
};
struct Link {
  LinkKind kind;
  BytesPerSecond bandwidth;
};

struct Price {
  DollarsPerSecond per_gpu;
  double pue = 1;  ///< facility power over IT power
  double purchase = 0;               ///< of one GPU and what belongs to it, USD; 0: rented only
  Seconds lifetime{4 * 365.25 * 86'400};  ///< in which it is written off
  double per_kwh = 0;                ///< electricity, USD
  double carbon_g_per_kwh = 0;
};

/// How NICs are joined. fat_tree: rail-optimised, two tiers. flat: one switch that never blocks,
/// from any NIC to any other. ring: per rail, node i to the nodes i - 1 and i + 1, cut-through.
enum class FabricKind : std::uint8_t { fat_tree, flat, ring };

/// Which of the ways between two leaves traffic takes: one, by the destination or by a hash of both
/// ends (ECMP), or all of them alike, spread by the switches or by the sender.
enum class Transport : std::uint8_t { destination, ecmp, adaptive, spray };

/// A homogeneous cluster. Links are numbered by kind and position, so that ids and routes are
/// computed, never stored per pair.
class Cluster {
 public:
  /// `nodes_per_unit` and `spines` count in a fat-tree only; `spine_link_bandwidth` is that of a
  /// leaf's link to a spine, or of a ring's link to a neighbour.
  struct Shape {
    std::uint32_t nodes, gpus_per_node, nics_per_node;
    std::uint32_t nodes_per_unit, spines;
    BytesPerSecond nic_bandwidth, spine_link_bandwidth;
    Seconds nvlink_latency, nic_latency, hop_latency;
    Watts host_power;
    std::uint32_t nodes_per_domain = 1;  ///< share one NVLink domain
    FabricKind fabric = FabricKind::fat_tree;
    bool in_network_reduction = false;  ///< the fabric's switches can add up (SHARP)
    bool line_rate = false;  ///< links carry what their data sheet says
    Transport transport = Transport::destination;
    std::uint32_t planes = 1;  ///< ports of a NIC, each in a network of its own
    /// Cables that a link between leaf and spine stands for: where traffic is spread evenly over
    /// all spines of all planes, they are one link that carries what all of them do.
    std::uint32_t cables = 1;
    std::uint32_t paths = 1;           ///< of a connection that is sprayed
    std::optional<Seconds> reroute = {};  ///< until traffic avoids what is lost; nothing: never
    std::uint64_t hash_seed = 0;       ///< of ECMP
  };
  Cluster(GpuModel gpu, Shape shape, Price price);

  const GpuModel& gpu_model() const { return gpu_; }
  const Shape& shape() const { return shape_; }
  const Price& price() const { return price_; }

  std::uint32_t gpus() const { return shape_.nodes * shape_.gpus_per_node; }
  std::uint32_t nodes() const { return shape_.nodes; }
  std::uint32_t units() const;  ///< scalable units, the last one possibly not full
  std::uint32_t rails() const { return shape_.nics_per_node; }
  /// Switches of both tiers, in all planes, and ways between two leaves.
  struct Switches {
    std::uint32_t leaves = 0, spines = 0, paths = 0;
    std::uint32_t all() const { return leaves + spines; }
  };
  Switches switches() const;
  /// Traffic between leaves is spread evenly over all cables.
  bool spreads() const { return shape_.transport >= Transport::adaptive; }
  std::uint32_t links() const { return link_count_; }

  NodeId node_of(GpuId gpu) const { return {gpu.value / shape_.gpus_per_node}; }
  std::uint32_t gpus_per_domain() const {
    return shape_.gpus_per_node * shape_.nodes_per_domain;
  }
  /// The NVLink domain, within which routes leave no NIC: a node, or several (NVL72).
  std::uint32_t domain_of(GpuId gpu) const { return gpu.value / gpus_per_domain(); }
  std::uint32_t unit_of(NodeId node) const;  ///< 0 outside of fat-trees
  /// The NIC, and so the rail, that serves a GPU.
  std::uint32_t rail_of(GpuId gpu) const;

  Link link(LinkId id) const;
  std::string link_name(LinkId id) const;  ///< "node3/nic5 out", "unit0/leaf2 up 7"
  LinkId nvlink_out(GpuId gpu) const;
  LinkId nvlink_in(GpuId gpu) const;
  LinkId nic_out(NodeId node, std::uint32_t rail) const;
  LinkId nic_in(NodeId node, std::uint32_t rail) const;
  /// Of fat-trees only.
  LinkId leaf_up(std::uint32_t unit, std::uint32_t rail, std::uint32_t spine) const;
  LinkId leaf_down(std::uint32_t unit, std::uint32_t rail, std::uint32_t spine) const;
  /// Of rings only: from a node to the next one, or to the one before.
  LinkId ring_next(NodeId node, std::uint32_t rail) const;
  LinkId ring_back(NodeId node, std::uint32_t rail) const;

  /// Appends the links from one GPU to another, in order. Within an NVLink domain: NVLink.
  /// Otherwise NVLink to the local GPU of the destination's rail if the rails differ (a flat
  /// fabric joins them), NIC, leaf, and over one spine if the units differ (chosen by the
  /// destination node, as InfiniBand's fat-tree routing does, or by a hash of both nodes: one flow,
  /// one path; or the one that stands for all). In a ring the
  /// shorter way round, onward if both are equal. Nothing if both are the same GPU.
  void route(GpuId from, GpuId to, std::vector<LinkId>& out) const;
  Seconds latency(GpuId from, GpuId to) const;

 private:
  LinkKind kind_of(LinkId id) const;
  std::string fabric_link_name(LinkId id) const;
  bool relays(GpuId from, GpuId to) const;  ///< over NVLink to another rail
  std::uint32_t spine_of(NodeId from, NodeId to, std::uint32_t rail) const;
  /// Steps from one node of a ring to another: onward, or backward if negative.
  std::int64_t ring_steps(NodeId from, NodeId to) const;
  std::uint32_t fabric_links() const;  ///< one direction: from leaves up, or onward in rings

  GpuModel gpu_;
  Shape shape_;
  Price price_;
  std::uint32_t nic_base_, fabric_base_, link_count_;
};

/// Switches of a fat-tree of three tiers for so many NICs, of switches with `ports` ports: half of
/// a leaf's and of a middle switch's go up (Al-Fares et al. 2008).
std::uint64_t three_tier_switches(std::uint64_t nics, std::uint32_t ports);

}  // namespace orrery

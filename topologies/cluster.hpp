// Immutable description of a cluster with dense ids and computed routes. Built once by builder.hpp;
// shared by reference; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "core/schema/names.hpp"
#include "core/units.hpp"

namespace orrery {

/// Number formats in which a GPU computes matrix products.
enum class Precision { fp32, tf32, bf16, fp8, fp4 };
constexpr std::array<std::string_view, 5> names_of(Precision) {
  return {"fp32", "tf32", "bf16", "fp8", "fp4"};
}

/// GPU model: dense peak rates; both directions counted separately.
struct GpuModel {
  std::string name;
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  FlopPerSecond fp32, tf32, bf16, fp8, fp4;  ///< 0: not supported
  BytesPerSecond nvlink;                     ///< one direction, all links; 0: none
  BytesPerSecond pcie;                       ///< one direction
  Watts idle_power, max_power;
  bool nvls = false;  ///< true: its NVLink switches reduce and multicast (NVLink SHARP)
  std::string family = {};  ///< kernel profile whose efficiencies apply

  FlopPerSecond peak(Precision precision) const;  ///< throws bad_input if not supported
};

/// Directed links. All flows on a link share its capacity.
enum class LinkKind : std::uint8_t {
  nvlink_out, nvlink_in, nic_out, nic_in, leaf_up, leaf_down, ring_next, ring_back
};
/// Link with its bandwidth.
struct Link {
  LinkKind kind;
  BytesPerSecond bandwidth;
};

/// Prices of a cluster.
struct Price {
  DollarsPerSecond per_gpu;
  double pue = 1;  ///< facility power over IT power
  double purchase = 0;               ///< one GPU with its share of the system, USD; 0: rented only
  Seconds lifetime{4 * 365.25 * 86'400};  ///< depreciation time
  double per_kwh = 0;                ///< electricity, USD
  double carbon_g_per_kwh = 0;
};

/// Connection of NICs. fat_tree: rail-optimised, two tiers. flat: one non-blocking switch between
/// all NICs. ring: per rail, node i to the nodes i - 1 and i + 1, cut-through.
enum class FabricKind : std::uint8_t { fat_tree, flat, ring };
constexpr std::array<std::string_view, 3> names_of(FabricKind) {
  return {"fat-tree", "flat", "ring"};
}

/// Choice of the path between two leaves: one path, by the destination or by a hash of both ends
/// (ECMP), or all paths equally, spread by the switches or by the sender.
enum class Transport : std::uint8_t { destination, ecmp, adaptive, spray };
constexpr std::array<std::string_view, 4> names_of(Transport) {
  return {"destination", "ecmp", "adaptive", "spray"};
}

/// Homogeneous cluster. Links are numbered by kind and position, so ids and routes are computed,
/// never stored per pair. For example, 4 nodes of 8 GPUs have GPUs 0 to 31, and GPU 13 is in node
/// 1.
class Cluster {
 public:
  /// Shape of a cluster. `nodes_per_unit` and `spines` are used in a fat-tree only;
  /// `spine_link_bandwidth` is that of a leaf's link to a spine, or of a ring's link to a
  /// neighbour.
  struct Shape {
    std::uint32_t nodes, gpus_per_node, nics_per_node;
    std::uint32_t nodes_per_unit, spines;
    BytesPerSecond nic_bandwidth, spine_link_bandwidth;
    Seconds nvlink_latency, nic_latency, hop_latency;
    Watts host_power;
    std::uint32_t nodes_per_domain = 1;  ///< nodes in one NVLink domain
    FabricKind fabric = FabricKind::fat_tree;
    bool in_network_reduction = false;  ///< true: the fabric's switches can reduce (SHARP)
    bool line_rate = false;  ///< true: links carry the rates of their data sheet
    Transport transport = Transport::destination;
    std::uint32_t planes = 1;  ///< ports of a NIC, each in a network of its own
    /// Number of cables that one link between leaf and spine represents: with even spreading over
    /// all spines of all planes, they are one link with their total capacity.
    std::uint32_t cables = 1;
    std::uint32_t paths = 1;           ///< paths of a sprayed connection
    /// delay until traffic avoids a lost part; nothing: never
    std::optional<Seconds> reroute = {};
    std::uint64_t hash_seed = 0;       ///< seed of ECMP's hash
  };
  /// Checks nothing; build_cluster() checks the description.
  Cluster(GpuModel gpu, Shape shape, Price price);

  const GpuModel& gpu_model() const { return gpu_; }
  const Shape& shape() const { return shape_; }
  const Price& price() const { return price_; }

  std::uint32_t gpus() const { return shape_.nodes * shape_.gpus_per_node; }
  std::uint32_t nodes() const { return shape_.nodes; }
  /// Returns the number of scalable units, of which the last may be incomplete; 1 outside of
  /// fat-trees.
  std::uint32_t units() const;
  std::uint32_t rails() const { return shape_.nics_per_node; }
  /// Numbers of switches of both tiers, in all planes, and of paths between two leaves; all 0
  /// outside of fat-trees.
  struct Switches {
    std::uint32_t leaves = 0, spines = 0, paths = 0;
    std::uint32_t all() const { return leaves + spines; }
  };
  Switches switches() const;
  /// Returns true if traffic between leaves is spread evenly over all cables.
  bool is_spraying() const { return shape_.transport >= Transport::adaptive; }
  std::uint32_t links() const { return link_count_; }

  NodeId node_of(GpuId gpu) const { return {gpu.value / shape_.gpus_per_node}; }
  std::uint32_t gpus_per_domain() const {
    return shape_.gpus_per_node * shape_.nodes_per_domain;
  }
  /// Returns the NVLink domain of a GPU, within which routes use no NIC: a node, or several
  /// (NVL72).
  std::uint32_t domain_of(GpuId gpu) const { return gpu.value / gpus_per_domain(); }
  std::uint32_t unit_of(NodeId node) const;  ///< 0 outside of fat-trees
  /// Returns the NIC of a GPU, which is also its rail.
  std::uint32_t rail_of(GpuId gpu) const;

  /// Returns a link; GPUs without NVLink have links of PCIe's bandwidth. Throws an internal Error
  /// for an unknown id.
  Link link(LinkId id) const;
  /// Returns a name, for example "node3/nic5 out" or "unit0/leaf2 up 7". Throws an internal Error
  /// for an unknown id.
  std::string link_name(LinkId id) const;
  // The methods below do not check their arguments.
  LinkId nvlink_out(GpuId gpu) const;
  LinkId nvlink_in(GpuId gpu) const;
  LinkId nic_out(NodeId node, std::uint32_t rail) const;
  LinkId nic_in(NodeId node, std::uint32_t rail) const;
  /// Returns the link from a leaf to a spine; fat-trees only. `spine` is below shape().spines,
  /// which is 1 if is_spraying(): that link represents all spines of switches().
  LinkId leaf_up(std::uint32_t unit, std::uint32_t rail, std::uint32_t spine) const;
  /// Returns the link from a spine to a leaf; fat-trees only. `spine`: see leaf_up().
  LinkId leaf_down(std::uint32_t unit, std::uint32_t rail, std::uint32_t spine) const;
  /// Returns the link from a node to the next one; rings only.
  LinkId ring_next(NodeId node, std::uint32_t rail) const;
  /// Returns the link from a node to the previous one; rings only.
  LinkId ring_back(NodeId node, std::uint32_t rail) const;

  /// Appends the links from one GPU to another, in order; nothing if both are the same GPU. Within
  /// an NVLink domain: NVLink. Otherwise NVLink to the local GPU of the destination's rail if the
  /// rails differ (a flat fabric connects them), NIC, leaf, and over one spine if the units differ
  /// (chosen by the destination node, as in InfiniBand's fat-tree routing, or by a hash of both
  /// nodes: one flow, one path; or the link that represents all spines). In a ring the shorter way,
  /// onward if both are equal.
  void route(GpuId from, GpuId to, std::vector<LinkId>& out) const;
  /// Returns the latency of a small message between two GPUs, without the transfer of its bytes; 0
  /// for the same GPU.
  Seconds latency(GpuId from, GpuId to) const;

 private:
  LinkKind kind_of(LinkId id) const;
  std::string fabric_link_name(LinkId id) const;
  bool is_relayed(GpuId from, GpuId to) const;  ///< true: over NVLink to another rail
  std::uint32_t spine_of(NodeId from, NodeId to, std::uint32_t rail) const;
  /// Returns the steps from one node of a ring to another: onward, or backward if negative.
  std::int64_t ring_steps(NodeId from, NodeId to) const;
  std::uint32_t fabric_links() const;  ///< one direction: from leaves up, or onward in rings

  GpuModel gpu_;
  Shape shape_;
  Price price_;
  std::uint32_t nic_base_, fabric_base_, link_count_;
};

/// Returns the number of switches of a fat-tree of three tiers for `nics` NICs, of switches with
/// `ports` > 0 ports: half of the ports of a leaf and a middle switch go up (Al-Fares et al. 2008).
/// For example, 128 NICs with 8-port switches need 80.
std::uint64_t three_tier_switches(std::uint64_t nics, std::uint32_t ports);

}  // namespace orrery

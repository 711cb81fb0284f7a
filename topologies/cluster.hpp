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
  Watts idle_power, max_power;  ///< values of the data sheet
  bool nvls = false;  ///< true: its NVLink switches reduce and multicast (NVLink SHARP)
  std::string family = {};  ///< kernel profile whose efficiencies apply
  /// limit of the power (node.power_cap); 0: max_power
  Watts power_cap = {};
  /// shares of the power between idle and max_power by activity (topologies/power.hpp)
  std::array<double, 4> activity_shares{1, 0.6, 0.35, 0.2};

  FlopPerSecond peak(Precision precision) const;  ///< throws bad_input if not supported
};

/// Directed links. All flows on a link share its capacity.
enum class LinkKind : std::uint8_t {
  nvlink_out, nvlink_in, nic_out, nic_in, leaf_up, leaf_down, ring_next, ring_back,
  core_up, core_down, torus_next, torus_back, group_local, group_global
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
  double per_kwh = 0;                ///< electricity, USD; the mean if it changes by the hour
  double carbon_g_per_kwh = 0;       ///< the mean if it changes by the hour
  std::vector<double> per_kwh_by_hour = {};   ///< repeats; empty: constant
  std::vector<double> carbon_by_hour = {};    ///< repeats; empty: constant
  Seconds begins_at = {};            ///< time in these tables at which a run begins
};

/// Connection of NICs. fat_tree: rail-optimised, two or three tiers. flat: one non-blocking switch
/// between all NICs. ring: per rail, node i to the nodes i - 1 and i + 1, cut-through. torus: the
/// same in up to three dimensions. dragonfly: groups of routers, each with links to all others.
enum class FabricKind : std::uint8_t { fat_tree, flat, ring, torus, dragonfly };
constexpr std::array<std::string_view, 5> names_of(FabricKind) {
  return {"fat-tree", "flat", "ring", "torus", "dragonfly"};
}

/// Choice of the path between two leaves: one path, by the destination or by a hash of both ends
/// (ECMP), or all paths equally, spread by the switches or by the sender.
enum class Transport : std::uint8_t { destination, ecmp, adaptive, spray };
constexpr std::array<std::string_view, 4> names_of(Transport) {
  return {"destination", "ecmp", "adaptive", "spray"};
}

/// Consecutive nodes whose GPUs have one kind, as an operator's list of nodes names it.
struct NodesOfKind {
  std::string kind;
  std::uint32_t nodes = 0;
};

/// Homogeneous cluster: kinds of GPUs are names, the GPUs of all kinds have one model. Links are
/// numbered by kind and position, so ids and routes are computed, never stored per pair. For
/// example, 4 nodes of 8 GPUs have GPUs 0 to 31, and GPU 13 is in node 1.
class Cluster {
 public:
  /// Shape of a cluster. `nodes_per_unit` and `spines` are used in a fat-tree only;
  /// `spine_link_bandwidth` is that of a leaf's link to a spine, of a link between neighbours of a
  /// ring or torus, or between routers of a dragonfly's group.
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
    std::uint32_t units_per_pod = 0;   ///< fat-tree: units below one set of spines; 0: two tiers
    std::uint32_t cores = 1;           ///< fat-tree of three tiers: core switches above a spine
    /// Link between spine and core of a fat-tree, or between two groups of a dragonfly.
    BytesPerSecond upper_link_bandwidth = {};
    std::array<std::uint32_t, 3> torus{1, 1, 1};  ///< nodes in each dimension
    std::uint32_t routers_per_group = 1, nodes_per_router = 1;  ///< dragonfly
    /// Kinds of GPUs, in the order of the nodes; a kind may appear several times. Empty: no kinds.
    std::vector<NodesOfKind> kinds = {};
    /// Above 1, in replays of logs with parts of GPUs: every id of a GPU is that of a slice of one,
    /// and `gpus_per_node` counts slices. Consecutive slices are those of one GPU.
    std::uint32_t slices_per_gpu = 1;
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
  /// Returns the number of pods, of which the last may be incomplete: sets of units with spines of
  /// their own. 1 without a third tier.
  std::uint32_t pods() const;
  /// Returns the number of groups of a dragonfly, of which the last may be incomplete; 1 otherwise.
  std::uint32_t groups() const;
  /// Returns true if every pair of nodes may have links of its own on its way, so that nodes cannot
  /// be counted by unit: rings, tori and dragonflies.
  bool is_direct() const { return shape_.fabric >= FabricKind::ring; }
  /// Numbers of switches of all tiers, in all planes and pods, and of paths between two leaves of a
  /// pod; all 0 outside of fat-trees.
  struct Switches {
    std::uint32_t leaves = 0, spines = 0, paths = 0, cores = 0;
    std::uint32_t all() const { return leaves + spines + cores; }
  };
  Switches switches() const;
  /// Returns true if traffic between leaves is spread evenly over all cables.
  bool is_spraying() const { return shape_.transport >= Transport::adaptive; }
  std::uint32_t links() const { return link_count_; }

  NodeId node_of(GpuId gpu) const { return {gpu.value / shape_.gpus_per_node}; }
  /// Returns the kind of a node's GPUs; empty in a cluster without kinds. Throws an internal Error
  /// if shape().kinds has fewer nodes.
  const std::string& gpu_kind(NodeId node) const;
  /// Returns the different kinds of GPUs, in the order of their first nodes.
  std::vector<std::string> gpu_kinds() const;
  std::uint32_t gpus_per_domain() const {
    return shape_.gpus_per_node * shape_.nodes_per_domain;
  }
  /// Returns the NVLink domain of a GPU, within which routes use no NIC: a node, or several
  /// (NVL72).
  std::uint32_t domain_of(GpuId gpu) const { return gpu.value / gpus_per_domain(); }
  std::uint32_t unit_of(NodeId node) const;  ///< 0 outside of fat-trees
  std::uint32_t pod_of(std::uint32_t unit) const;  ///< 0 without a third tier
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
  /// Returns the link from a spine of a pod to one of the cores above; fat-trees of three tiers
  /// only. `core` is below shape().cores.
  LinkId core_up(std::uint32_t pod, std::uint32_t rail, std::uint32_t spine,
                 std::uint32_t core) const;
  /// Returns the link from a core to a spine of a pod; see core_up().
  LinkId core_down(std::uint32_t pod, std::uint32_t rail, std::uint32_t spine,
                   std::uint32_t core) const;
  /// Returns the link from a node to the next one, or to the previous one, in a dimension; tori
  /// only.
  LinkId torus_link(NodeId node, std::uint32_t rail, std::uint32_t dimension, bool next) const;
  /// Returns the link from a router to another router of its group; dragonflies only. `router` is a
  /// number in the cluster, `to` a number in the group.
  LinkId group_local(std::uint32_t router, std::uint32_t rail, std::uint32_t to) const;
  /// Returns the link from one group to another; dragonflies only.
  LinkId group_global(std::uint32_t from, std::uint32_t rail, std::uint32_t to) const;
  /// Returns the core that traffic to a node takes above its spine: with as many nodes as spines x
  /// cores all destinations use different ones. 0 without a third tier.
  std::uint32_t core_of(NodeId to) const;

  /// Appends the links from one GPU to another, in order; nothing if both are the same GPU. Within
  /// an NVLink domain: NVLink. Otherwise NVLink to the local GPU of the destination's rail if the
  /// rails differ (a flat fabric connects them), NIC, leaf, and over one spine if the units differ
  /// (chosen by the destination node, as in InfiniBand's fat-tree routing, or by a hash of both
  /// nodes: one flow, one path; or the link that represents all spines), and over one of its cores
  /// if the pods differ. In a ring, and in each dimension of a torus after the other, the shorter
  /// way, onward if both are equal. In a dragonfly over the router with the global link to the
  /// destination's group, router g modulo the routers of a group for group g.
  void route(GpuId from, GpuId to, std::vector<LinkId>& out) const;
  /// Returns the latency of a small message between two GPUs, without the transfer of its bytes; 0
  /// for the same GPU.
  Seconds latency(GpuId from, GpuId to) const;

 private:
  LinkKind kind_of(LinkId id) const;
  std::string fabric_link_name(LinkId id) const;
  bool is_relayed(GpuId from, GpuId to) const;  ///< true: over NVLink to another rail
  std::uint32_t spine_of(NodeId from, NodeId to, std::uint32_t rail) const;
  /// Appends the links between the NICs of two nodes.
  void route_fabric(NodeId from, NodeId to, std::uint32_t rail, std::vector<LinkId>& out) const;
  void route_ring(NodeId from, NodeId to, std::uint32_t rail, std::vector<LinkId>& out) const;
  void route_torus(NodeId from, NodeId to, std::uint32_t rail, std::vector<LinkId>& out) const;
  void route_dragonfly(NodeId from, NodeId to, std::uint32_t rail, std::vector<LinkId>& out) const;
  /// Returns the number of switches between the NICs of two different nodes beyond the first.
  std::int64_t further_switches(NodeId from, NodeId to) const;
  /// Returns the number of links in one direction: from leaves and spines up, onward in rings and
  /// tori; in a dragonfly of all links.
  std::uint32_t fabric_links() const;
  /// Returns the number of links from leaves up, or between the routers of a dragonfly's groups.
  std::uint32_t lower_links() const;

  GpuModel gpu_;
  Shape shape_;
  Price price_;
  std::uint32_t nic_base_, fabric_base_, link_count_;
};

/// Returns the signed number of steps from one place of a circle of `size` places to another, by
/// the shorter way: onward, or backward if negative; onward if both are equal.
std::int64_t shorter_way(std::uint32_t from, std::uint32_t to, std::uint32_t size);

/// Returns the number of switches of a fat-tree of three tiers for `nics` NICs, of switches with
/// `ports` > 0 ports: half of the ports of a leaf and a middle switch go up (Al-Fares et al. 2008).
/// For example, 128 NICs with 8-port switches need 80.
std::uint64_t three_tier_switches(std::uint64_t nics, std::uint32_t ports);

}  // namespace orrery

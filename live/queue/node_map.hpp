// Nodes of a real cluster as nodes of a Cluster: names, GPUs, lost parts, and free GPUs on named
// nodes. Used by live/slurm and live/kubernetes. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policies/seam/cluster_state.hpp"
#include "policies/seam/gpu_runs.hpp"
#include "topologies/cluster.hpp"
#include "topologies/part.hpp"

namespace orrery::live {

/// One node of a real cluster as a reading shows it.
struct QueueNode {
  std::string name;
  std::uint32_t gpus = 0;  ///< configured GPUs
  bool is_usable = false;     ///< jobs can start there: not down, drained or silent
  std::string rack = {};      ///< empty: no rack is known
  std::string gpu_type = {};  ///< type of the GPUs, for example "a100"; empty: not stated
};

/// Mapping of the nodes with GPUs to the nodes of a Cluster, which are called places here: first in
/// the order in which they are given, then as nodes join and leave. A cluster has equal nodes:
/// nodes with fewer GPUs than the largest have lost GPUs. GPU ids are Orrery's own: the cluster's
/// scheduler chooses the devices of a node. For example, the GPUs 8 to 15 are those of the second
/// place if the largest node has 8.
class NodeMap {
 public:
  /// Maps the nodes of `nodes`; of two nodes of one name the first one counts. A node without a
  /// name is a place that has no node yet. `places_per_rack` > 0: consecutive places of this number
  /// belong to one rack. Throws bad_input if no node has a GPU.
  explicit NodeMap(const std::vector<QueueNode>& nodes, std::uint32_t places_per_rack = 0);

  /// Returns the number of places.
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(names_.size()); }
  /// Returns the number of places that have a node.
  std::uint32_t known_nodes() const { return static_cast<std::uint32_t>(ids_.size()); }
  /// Returns the number of GPUs of a place: that of the largest node at the start.
  std::uint32_t gpus_per_node() const { return gpus_per_node_; }
  /// Returns the name of the node of a place; empty for a place without a node.
  const std::string& name(NodeId node) const { return names_.at(node.value); }
  /// Returns true if a rack is known for a node.
  bool has_racks() const { return has_racks_; }
  /// Returns the number of nodes of the largest rack; nodes without a rack count as one rack.
  std::uint32_t largest_rack() const { return largest_rack_; }
  /// Returns true if all GPUs are those of nodes of one rack; nodes without a rack count as one.
  bool is_within_rack(const GpuRuns& gpus) const;

  /// Gives a node that has joined a place without a node: the first one of its rack, or else of a
  /// rack without nodes. Returns nothing, and changes nothing, if no such place is left. A node
  /// with more GPUs than gpus_per_node() gets these alone. The name must be new (not checked).
  std::optional<NodeId> adopt(const QueueNode& node);
  /// Makes the place of a node that has left one without a node. No job may have its GPUs.
  void release(NodeId node);

  /// Returns the node with this name; nothing for another name.
  std::optional<NodeId> find(const std::string& name) const;
  /// Returns the ascending ids of the nodes with these names, without names of other nodes.
  std::vector<NodeId> find_all(const std::vector<std::string>& names) const;
  /// Returns the ascending names of the nodes of these GPUs.
  std::vector<std::string> names_of(const GpuRuns& gpus) const;
  /// Returns true if `gpus` holds `per_node` GPUs on each of `count` nodes and no others.
  bool has_shape(const GpuRuns& gpus, std::uint32_t count, std::uint32_t per_node) const;
  /// Returns the parts that no job can use now: nodes that are down, drained, silent or missing in
  /// `nodes`, places without a node, and the GPUs that small nodes lack.
  std::set<Part> lost_parts(const std::vector<QueueNode>& nodes) const;

 private:
  void set_node(std::uint32_t place, const QueueNode& node);
  void count_racks();
  std::optional<std::uint32_t> find_place(const std::string& rack) const;

  std::vector<std::string> names_;  ///< by place; empty: no node
  std::vector<std::string> racks_;  ///< by place
  std::map<std::string, NodeId> ids_;
  std::set<Part> missing_gpus_;
  std::uint32_t gpus_per_node_ = 0, places_per_rack_ = 0, largest_rack_ = 0;
  bool has_racks_ = false;
};

/// Returns `per_node` GPUs without an owner on each of `nodes`, lowest numbers first; nothing if a
/// node has fewer. Counts GPUs of lost nodes, because a job can run on a node that takes no others.
std::optional<GpuRuns> unowned_gpus(const ClusterState& state, const std::vector<NodeId>& nodes,
                                    std::uint32_t per_node, std::uint32_t gpus_per_node);

}  // namespace orrery::live

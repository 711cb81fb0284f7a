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
  bool is_usable = false;  ///< jobs can start there: not down, drained or silent
  std::string gpu_type = {};  ///< type of the GPUs, for example "a100"; empty: not stated
};

/// Fixed mapping of the nodes with GPUs, in the order in which they are given. A cluster has equal
/// nodes: nodes with fewer GPUs than the largest have lost GPUs. GPU ids are Orrery's own: the
/// cluster's scheduler chooses the devices of a node. For example, the GPUs 8 to 15 are those of
/// the second node if the largest node has 8.
class NodeMap {
 public:
  /// Maps the nodes of `nodes`; of two nodes of one name the first one counts. A node without a
  /// name is a place of a rack that has no node: all of its GPUs are lost. Throws bad_input if no
  /// node has a GPU.
  explicit NodeMap(const std::vector<QueueNode>& nodes);

  /// Returns the number of nodes.
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(names_.size()); }
  /// Returns the number of GPUs of the largest node.
  std::uint32_t gpus_per_node() const { return gpus_per_node_; }
  /// Returns the name of a node.
  const std::string& name(NodeId node) const { return names_.at(node.value); }
  /// Returns the node with this name; nothing for another name.
  std::optional<NodeId> find(const std::string& name) const;
  /// Returns the ascending ids of the nodes with these names, without names of other nodes.
  std::vector<NodeId> find_all(const std::vector<std::string>& names) const;
  /// Returns the ascending names of the nodes of these GPUs.
  std::vector<std::string> names_of(const GpuRuns& gpus) const;
  /// Returns true if `gpus` holds `per_node` GPUs on each of `count` nodes and no others.
  bool has_shape(const GpuRuns& gpus, std::uint32_t count, std::uint32_t per_node) const;
  /// Returns the parts that no job can use now: nodes that are down, drained, silent or missing in
  /// `nodes`, and the GPUs that small nodes lack.
  std::set<Part> lost_parts(const std::vector<QueueNode>& nodes) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, NodeId> ids_;
  std::set<Part> missing_gpus_;
  std::uint32_t gpus_per_node_ = 0;
};

/// Returns `per_node` GPUs without an owner on each of `nodes`, lowest numbers first; nothing if a
/// node has fewer. Counts GPUs of lost nodes, because a job can run on a node that takes no others.
std::optional<GpuRuns> unowned_gpus(const ClusterState& state, const std::vector<NodeId>& nodes,
                                    std::uint32_t per_node, std::uint32_t gpus_per_node);

}  // namespace orrery::live

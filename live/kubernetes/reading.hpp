// State of a Kubernetes cluster at one instant, as the process of python/orrery/kube reads it. Used
// by live/kubernetes/adapter and live/kubernetes/gang_follower. Pure functions, thread-safe.
// Instants are seconds since 1970, durations seconds.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/names.hpp"
#include "live/queue/node_map.hpp"

namespace orrery::live {

/// Stage of a gang: pods are missing; a policy may place the gang; a placement is committed and not
/// all pods are bound to nodes; all pods are bound; pods are being deleted; all pods have ended.
enum class GangState : std::uint8_t {
  incomplete,
  waiting,
  placing,
  placed,
  leaving,
  completed,
  failed
};
constexpr std::array<std::string_view, 7> names_of(GangState) {
  return {"incomplete", "waiting", "placing", "placed", "leaving", "completed", "failed"};
}

/// Pods that start together, or one pod that is only observed.
struct KubeGang {
  std::string id;   ///< "NAMESPACE/NAME"; "NAMESPACE/pod/NAME" for an observed pod
  std::string uid;  ///< differs for another gang of the same name
  GangState state{};
  bool is_managed = false;
  std::int64_t submitted_s = 0;
  std::int64_t limit_s = 0;  ///< longest duration; 0: not stated
  std::string queue;         ///< Kueue's queue, or the namespace
  std::uint32_t pods = 0, pods_per_node = 1, gpus_per_pod = 0;
  std::vector<std::string> nodes = {};  ///< node of each pod that is bound or placed, sorted

  /// Returns the number of nodes that the gang requests.
  std::uint32_t requested_nodes() const { return pods / pods_per_node; }
  /// Returns the number of GPUs that the gang requests on each node.
  std::uint32_t gpus_per_node() const { return gpus_per_pod * pods_per_node; }
};

/// One node with its rack.
struct KubeNode : QueueNode {
  std::string rack;  ///< empty: no label names the rack
};

/// One reading.
struct KubeReading {
  bool is_leader = false;  ///< this controller may write
  std::string holder;      ///< identity of the leader; empty: none
  std::vector<KubeNode> nodes;
  std::vector<KubeGang> gangs;
  std::vector<std::string> problems;  ///< facts that an operator must mend
};

/// Returns the reading of a message of the process. Throws bad_input that names the wrong field if
/// the message has another form, and an environment Error with the reason if the message says that
/// the reading failed.
KubeReading parse_reading(const std::string& message);

/// Returns the nodes rack by rack, each rack filled up with places without a node to the size of
/// the largest, so that racks have equal sizes. `nodes_per_rack` receives this size; 0 if no label
/// names a rack. For example, racks of 3 and 2 nodes become six places. Nodes without a rack are a
/// rack of their own, the last one.
std::vector<QueueNode> nodes_by_rack(std::vector<KubeNode> nodes, std::uint32_t& nodes_per_rack);

}  // namespace orrery::live

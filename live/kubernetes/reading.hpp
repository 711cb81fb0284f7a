// State of a Kubernetes cluster at one instant, as the process of python/orrery/kube reads it. Used
// by live/kubernetes/adapter and live/kubernetes/gang_follower. One thread. Instants are seconds
// since 1970, durations seconds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
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
  std::string id;         ///< "NAMESPACE/NAME"; "NAMESPACE/pod/NAME" for an observed pod
  std::string uid;        ///< differs for another gang of the same name
  std::string name = {};  ///< the user's name, which gangs of several runs share
  GangState state{};
  bool is_managed = false;
  std::int64_t submitted_s = 0;
  std::int64_t limit_s = 0;  ///< longest duration; 0: not stated
  std::string queue;         ///< Kueue's queue, or the namespace
  std::uint32_t pods = 0, pods_per_node = 1, gpus_per_pod = 0;
  std::vector<std::string> nodes = {};  ///< node of each pod that is bound or placed, sorted
  bool needs_rack = false;              ///< all pods must be in one rack

  /// Returns the number of nodes that the gang requests.
  std::uint32_t requested_nodes() const { return pods / pods_per_node; }
  /// Returns the number of GPUs that the gang requests on each node.
  std::uint32_t gpus_per_node() const { return gpus_per_pod * pods_per_node; }
};

/// One node; its rack is empty if no label names the rack.
using KubeNode = QueueNode;

/// One reading, or the changes since the reading before.
struct KubeReading {
  bool is_leader = false;  ///< this controller may write
  std::string holder;      ///< identity of the leader; empty: none
  std::vector<KubeNode> nodes;
  std::vector<KubeGang> gangs;
  std::vector<std::string> problems;  ///< facts that an operator must mend
  std::uint64_t version = 0;          ///< number of the reading that the process counts
  bool is_full = true;    ///< false: `gangs` are those that have changed since the reading before
  bool has_nodes = true;  ///< false: no node has changed, and `nodes` is empty
  std::vector<std::string> gone = {};  ///< ids of gangs that have left since the reading before
};

/// Newest state of a cluster: a full reading with the changes of the readings after it.
class KubeState {
 public:
  /// Returns the version of the newest reading; 0 before the first one.
  std::uint64_t version() const { return version_; }
  /// Applies a reading and returns the complete one. Throws bad_input if the first reading is not
  /// full. For example, a reading without gangs and nodes that is not full gives the reading before
  /// once more.
  KubeReading apply(KubeReading changes);

 private:
  std::uint64_t version_ = 0;
  std::vector<KubeNode> nodes_;
  std::map<std::string, KubeGang> gangs_;  ///< keys are ids
};

/// Returns the reading of a message of the process. Throws bad_input that names the wrong field if
/// the message has another form, and an environment Error with the reason if the message says that
/// the reading failed.
KubeReading parse_reading(const std::string& message);

/// Returns the nodes rack by rack, each rack filled up with places without a node, so that racks
/// have equal sizes. `places` is the number of nodes for which there is room, at least that of
/// `nodes`: the size of the racks, which is that of the largest, and their number grow by its share
/// beyond the nodes. `nodes_per_rack` receives the size of the racks; 0 if no label names a rack.
/// For example, racks of 3 and 2 nodes and 5 places become six places, with 10 places four racks of
/// six places. Nodes without a rack are a rack of their own.
std::vector<QueueNode> nodes_by_rack(std::vector<KubeNode> nodes, std::uint32_t places,
                                     std::uint32_t& nodes_per_rack);

}  // namespace orrery::live

// Packing: the node and GPUs of a pod where GPUs are shared and of several kinds. SharedCluster
// holds the free resources; a Packer picks, and the caller places. Called by
// sim/packing/packing_study. One thread. Thousandths of a CPU and of a GPU, MiB. A pod fits on a
// node with enough CPU, memory and GPUs of an accepted kind: for a pod of one GPU its share of one
// GPU, else as many whole GPUs. Scores are whole numbers from 0 to 100, as in Kubernetes'
// scheduler, and ties go to the first node by name; the published figures of FGD (Weng et al.,
// USENIX ATC 2023) were made in this way.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.hpp"
#include "core/schema/names.hpp"
#include "traces/jobs/pod_list.hpp"

namespace orrery::sim {

/// Packings, as `orrery pack` names them; see make_packer().
enum class Packing : std::uint8_t { random, dot_product, best_fit, fgd };
constexpr std::array<std::string_view, 4> names_of(Packing) {
  return {"random", "dot-product", "best-fit", "fgd"};
}

/// Cluster with shared GPUs and its free resources.
class SharedCluster {
 public:
  /// Free resources of one node.
  struct Node {
    std::string model;
    std::int64_t cpu_milli = 0, memory_mib = 0;  ///< free amounts
    std::vector<std::uint32_t> gpu_milli;        ///< free amount of each GPU
    std::uint64_t gpu_left = 0;                  ///< sum over all GPUs
    std::uint32_t changes = 0;                   ///< number of changes since the node was empty
  };

  /// Constructs a cluster of idle nodes, which must be in the order of their names.
  explicit SharedCluster(const std::vector<NodeRecord>& nodes);

  /// Returns the nodes in the order of the constructor's list.
  const std::vector<Node>& nodes() const { return nodes_; }
  /// Returns the GPUs of all nodes, free or not, in thousandths of a GPU.
  std::uint64_t gpu_milli() const { return gpu_milli_; }
  /// Returns the free GPUs of all nodes, in thousandths of a GPU.
  std::uint64_t gpu_milli_left() const { return gpu_milli_left_; }
  /// Returns true if the pod fits on the node `node`, an index into nodes() (not checked): CPU and
  /// memory suffice and, unless the pod needs no GPU, enough GPUs of an accepted kind have its
  /// amount left.
  bool fits(const Pod& pod, std::uint32_t node) const;
  /// Takes the resources of the pod from `node` and from its GPUs `gpus`. Throws an internal Error
  /// if the node or one of these GPUs has too little left, or if the pod needs another number of
  /// GPUs, and std::out_of_range for a GPU that the node lacks; some GPUs may then be taken. Does
  /// not check the kind of the GPUs, nor `node`. Increases the node's `changes`.
  void place_pod(const Pod& pod, std::uint32_t node, const std::vector<std::uint32_t>& gpus);

 private:
  std::vector<Node> nodes_;
  std::uint64_t gpu_milli_ = 0, gpu_milli_left_ = 0;
};

/// Place of a pod.
struct Pick {
  std::uint32_t node = 0;
  std::vector<std::uint32_t> gpus = {};  ///< GPUs of that node
  friend bool operator==(const Pick&, const Pick&) = default;
};

/// Rule by which a pod gets a place.
class Packer {
 public:
  virtual ~Packer() = default;
  /// Returns a place for the pod; nothing if it fits on no node. Does not take the resources: the
  /// caller calls place_pod(). Always pass the same cluster.
  virtual std::optional<Pick> pick_place(const Pod& pod, const SharedCluster& cluster) = 0;
};

/// Returns the names of all packers.
std::vector<std::string> packer_names();

/// Returns a new packer. random: any node, any GPU of it. dot-product (Grandl et al., SIGCOMM
/// 2014): the node with the least left in the direction of the request, in CPU and GPUs relative to
/// the largest node. best-fit: the node with the least CPU and GPUs left afterwards. fgd: the node
/// and GPU by which the fewest GPUs become useless to `workload` (sim/packing/fragmentation).
/// All except the first and the last take the GPU of a node with the least sufficient amount. `rng`
/// is used by random only, `workload` by fgd only. Throws bad_input with the nearest name for an
/// unknown name.
std::unique_ptr<Packer> make_packer(std::string_view name, const std::vector<Pod>& workload,
                                    Rng rng);

/// Returns the GPU with the least sufficient amount; for a pod of whole GPUs the first idle ones;
/// none for a pod without GPUs. If the pod does not fit, the result is too short.
std::vector<std::uint32_t> tightest_gpus(const Pod& pod, const SharedCluster::Node& node);

}  // namespace orrery::sim

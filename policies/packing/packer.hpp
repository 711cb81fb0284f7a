// Which node and which GPUs a pod gets where GPUs are shared and of several kinds: packing. What is
// free is a SharedCluster; a Packer picks, and whoever asked places. Called by
// sim/jobs/packing_study. One thread. Thousandths of a CPU and of a GPU, MiB.
//
// A pod fits on a node that has the CPU, the memory and, of a kind that it may have, the GPUs: of a
// pod of one GPU the share on one GPU, else as many that are whole. Scores are whole numbers from 0
// to 100, as Kubernetes' scheduler has them, and ties go to the first node by name: so are the
// published figures of FGD (Weng et al., USENIX ATC 2023) made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.hpp"
#include "traces/jobs/pod_list.hpp"

namespace orrery {

class SharedCluster {
 public:
  struct Node {
    std::string model;
    std::int64_t cpu_milli = 0, memory_mib = 0;  ///< left
    std::vector<std::uint32_t> gpu_milli;        ///< left of each GPU
    std::uint64_t gpu_left = 0;                  ///< of all of them
    std::uint32_t changes = 0;                   ///< since it was empty
  };

  explicit SharedCluster(const std::vector<NodeRecord>& nodes);

  const std::vector<Node>& nodes() const { return nodes_; }
  /// Of all nodes, whether free or not.
  std::uint64_t gpu_milli() const { return gpu_milli_; }
  std::uint64_t gpu_milli_left() const { return gpu_milli_left_; }
  bool fits(const Pod& pod, std::uint32_t node) const;
  /// Throws an internal Error if it does not fit there.
  void place(const Pod& pod, std::uint32_t node, const std::vector<std::uint32_t>& gpus);

 private:
  std::vector<Node> nodes_;
  std::uint64_t gpu_milli_ = 0, gpu_milli_left_ = 0;
};

struct Pick {
  std::uint32_t node = 0;
  std::vector<std::uint32_t> gpus = {};  ///< of that node
  friend bool operator==(const Pick&, const Pick&) = default;
};

class Packer {
 public:
  virtual ~Packer() = default;
  /// Nothing if the pod fits nowhere.
  virtual std::optional<Pick> pick(const Pod& pod, const SharedCluster& cluster) = 0;
};

std::vector<std::string> packer_names();

/// random: any node, any GPU of it.
/// dot-product: the node that is left with least in the direction of what the pod asks for
///   (Grandl et al., SIGCOMM 2014): CPU and GPUs, over those of the largest node.
/// best-fit: the node with the least left after it, of CPU and GPUs.
/// fgd: the node and GPU by which the fewest GPUs become useless to `workload`
///   (policies/packing/fragmentation).
/// All but the first and the last take of a node the GPU with the least left that suffices.
/// Throws bad_input with the nearest name.
std::unique_ptr<Packer> make_packer(std::string_view name, const std::vector<Pod>& workload,
                                    Rng rng);

/// The GPU with the least left that suffices; of a pod of whole GPUs the first idle ones. The pod
/// fits there.
std::vector<std::uint32_t> tightest_gpus(const Pod& pod, const SharedCluster::Node& node);

}  // namespace orrery

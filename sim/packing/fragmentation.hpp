// Fragmentation gradient descent (FGD; Weng et al., "Beware of Fragmentation", USENIX ATC 2023):
// the free GPUs of a node that a workload cannot use, and the packing that increases them least.
// One thread. Thousandths of a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/packing/packer.hpp"

namespace orrery::sim {

/// Typical requests of pods with their frequencies: the most frequent requests that make up 95% of
/// all pods.
class TypicalPods {
 public:
  /// Counts the requests of `pods`, whose models must be ascending; without pods, fragmented() is
  /// always 0.
  explicit TypicalPods(const std::vector<Pod>& pods);

  /// Returns the expected free GPUs of the node, in thousandths, that a typical pod cannot use: all
  /// of them if the pod does not fit (too little CPU, the wrong kind, too few GPUs) or needs no
  /// GPU; else the GPUs with less left than the pod needs. 0 if no GPU is free. For example, 3 GPUs
  /// with 500 left each are 1,500 fragmented for a pod that needs 1,000.
  double fragmented(const SharedCluster::Node& node) const;

 private:
  /// Requests that differ in CPU alone.
  struct Kind {
    std::uint32_t gpus = 0, gpu_milli = 0;
    std::vector<std::string> models;
    std::vector<std::pair<std::int64_t, double>> by_cpu;  ///< fraction of pods up to this CPU
    double share = 0;                                     ///< fraction of all pods
  };
  static double share_up_to(const Kind& kind, std::int64_t cpu_milli);

  std::vector<Kind> kinds_;
};

/// Packer by fragmentation gradient descent: chooses the node and GPU whose fragmentation grows
/// least.
class FgdPacker : public Packer {
 public:
  /// Constructs a packer for one cluster: pick_place() keeps results by node, and must always get
  /// the same cluster.
  explicit FgdPacker(const std::vector<Pod>& workload) : typical_(workload) {}
  std::optional<Pick> pick_place(const Pod& pod, const SharedCluster& cluster) override;

 private:
  /// Result of a request on a node, valid until the node changes.
  struct Choice {
    std::uint32_t changes = ~0u;
    std::int32_t score = 0;
    std::uint32_t gpu = 0;  ///< GPU of a pod with one GPU
  };
  using Request = std::tuple<std::int64_t, std::uint32_t, std::uint32_t>;
  Choice best_choice(const Pod& pod, const SharedCluster::Node& node);

  const TypicalPods typical_;
  std::map<Request, std::vector<Choice>> choices_;  ///< indexed by node
};

}  // namespace orrery::sim

// Fragmentation gradient descent (FGD; Weng et al., "Beware of Fragmentation", USENIX ATC 2023):
// how much of a node's free GPUs a workload cannot use, and the packing by which that grows least.
// One thread. Thousandths of a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "policies/packing/packer.hpp"

namespace orrery {

/// What pods ask for, by how often: the most frequent requests that are 95% of all pods together.
class TypicalPods {
 public:
  explicit TypicalPods(const std::vector<Pod>& pods);

  /// Expected over these pods: what is free of the node's GPUs and is of no use to the pod. All of
  /// it where the pod does not fit (too little CPU, the wrong kind, too few GPUs) and where it
  /// needs no GPU; else the GPUs of which less is left than it needs.
  double fragmented(const SharedCluster::Node& node) const;

 private:
  /// Requests that differ in CPU alone.
  struct Kind {
    std::uint32_t gpus = 0, gpu_milli = 0;
    std::vector<std::string> models;
    std::vector<std::pair<std::int64_t, double>> by_cpu;  ///< share of pods up to so much CPU
    double share = 0;                                     ///< of all
  };
  static double share_up_to(const Kind& kind, std::int64_t cpu_milli);

  std::vector<Kind> kinds_;
};

class FgdPacker : public Packer {
 public:
  explicit FgdPacker(const std::vector<Pod>& workload) : typical_(workload) {}
  std::optional<Pick> pick(const Pod& pod, const SharedCluster& cluster) override;

 private:
  /// What a request would come to on a node, as long as the node does not change.
  struct Choice {
    std::uint32_t changes = ~0u;
    std::int32_t score = 0;
    std::uint32_t gpu = 0;  ///< of a pod of one GPU
  };
  using Request = std::tuple<std::int64_t, std::uint32_t, std::uint32_t>;
  Choice weigh(const Pod& pod, const SharedCluster::Node& node);

  const TypicalPods typical_;
  std::map<Request, std::vector<Choice>> choices_;  ///< by node
};

}  // namespace orrery

// A pool of nodes whose GPUs the placement tests take and free.
#pragma once

#include <vector>

#include "policies/placement/placer.hpp"
#include "policies/run/registry.hpp"

namespace orrery {

class FreePool {
 public:
  FreePool(std::uint32_t nodes, std::uint32_t size)
      : cluster_(make(nodes, size)), world_(cluster_), free_(cluster_) {
    free_.refresh(world_.state());
  }
  /// Leaves `counts[n]` GPUs free in node n.
  void leave(const std::vector<std::uint32_t>& counts) {
    GpuRuns out;
    for (std::uint32_t n = 0; n < counts.size(); ++n) {
      free_.take(n, free_.in_node(n) - counts[n], out);
    }
  }
  /// The GPUs' numbers, or {} if the job does not fit.
  std::vector<std::uint32_t> place(const Placer& placer, std::uint32_t gpus) {
    JobSpec job;
    job.gpus = gpus;
    std::vector<std::uint32_t> numbers;
    if (const auto placed = placer.place(job, free_)) {
      for (const GpuId gpu : *placed) numbers.push_back(gpu.value);
    }
    return numbers;
  }
  FreeGpus& free() { return free_; }
  const ClusterState& state() const { return world_.state(); }
  void change(Part part, Health health) { world_.apply(PartChanged{part, {.health = health}}, 0); }

 private:
  static Cluster make(std::uint32_t nodes, std::uint32_t size) {
    JobReplay replay;
    replay.set_nodes(nodes);
    replay.set_gpus_per_node(size);
    return cluster_of(replay);
  }
  Cluster cluster_;
  World world_;
  FreeGpus free_;
};

using Numbers = std::vector<std::uint32_t>;

}  // namespace orrery

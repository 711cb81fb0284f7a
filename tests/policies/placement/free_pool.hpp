// A pool of nodes whose GPUs the placement tests take and free.
#pragma once

#include <vector>

#include "policies/placement/placer.hpp"
#include "policies/run/registry.hpp"

namespace orrery {

/// World with free GPUs for placement tests.
class FreePool {
 public:
  /// `per_unit`: nodes of a scalable unit; 0: all nodes are one unit. `slices`: of each GPU; above
  /// 1, numbers of GPUs are those of slices.
  FreePool(std::uint32_t nodes, std::uint32_t size, std::uint32_t per_unit = 0,
           std::uint32_t slices = 1)
      : cluster_(make_cluster(nodes, size, per_unit, slices)), world_(cluster_), free_(cluster_) {
    free_.refresh_from(world_.state());
  }
  /// Leaves `counts[n]` GPUs free in node n.
  void leave_free(const std::vector<std::uint32_t>& counts) {
    GpuRuns out;
    for (std::uint32_t n = 0; n < counts.size(); ++n) {
      free_.take_gpus(n, free_.in_node(n) - counts[n], out);
    }
  }
  /// The GPUs' numbers, or {} if the job does not fit.
  std::vector<std::uint32_t> place_job(const Placer& placer, std::uint32_t gpus) {
    JobSpec job;
    job.gpus = gpus;
    std::vector<std::uint32_t> numbers;
    if (const auto placed = placer.place_job(job, free_)) {
      for (const GpuId gpu : *placed) numbers.push_back(gpu.value);
    }
    return numbers;
  }
  FreeGpus& free_gpus() { return free_; }
  const ClusterState& state() const { return world_.state(); }
  void change_health(Part part, Health health) {
    world_.apply(PartChanged{part, {.health = health}}, 0);
  }

 private:
  static Cluster make_cluster(std::uint32_t nodes, std::uint32_t size, std::uint32_t per_unit,
                              std::uint32_t slices) {
    JobReplay replay;
    replay.set_nodes(nodes);
    replay.set_gpus_per_node(size);
    if (slices > 1) replay.set_gpu_slices(slices);
    const Cluster flat = cluster_of(replay);
    Cluster::Shape shape = flat.shape();
    if (per_unit > 0) shape.nodes_per_unit = per_unit;
    return Cluster(flat.gpu_model(), shape, flat.price());
  }
  Cluster cluster_;
  World world_;
  FreeGpus free_;
};

using Numbers = std::vector<std::uint32_t>;

}  // namespace orrery

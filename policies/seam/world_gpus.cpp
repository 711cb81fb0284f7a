// Whose GPUs are, and how many are free: the part of World that counts. See world.hpp.
#include <algorithm>

#include "policies/seam/gpu_sets.hpp"
#include "policies/seam/world.hpp"

namespace orrery {

/// All of them are there, and nobody's or its own.
bool World::unclaimed(GpuRuns::Run run, JobId job) const {
  if (std::uint64_t{run.first} + run.count > state_.owner.size()) return false;
  const auto first = state_.owner.begin() + run.first;
  return std::all_of(first, first + run.count,
                     [job](JobId owner) { return owner == ClusterState::kNobody || owner == job; });
}

void World::count_free(NodeId node, std::uint32_t free) {
  std::uint32_t& now = state_.free_per_node[node.value];
  if (now == free) return;
  state_.free += free - now;
  now = free;
  state_.changed_nodes[state_.changes++ % state_.changed_nodes.size()] = node.value;
}

void World::own(GpuRuns::Run run, JobId owner) {
  const std::uint32_t end = run.first + run.count;
  for (std::uint32_t gpu = run.first; gpu < end;) {
    const NodeId node = cluster_->node_of({gpu});
    const std::uint32_t stop = std::min(end, (node.value + 1) * cluster_->shape().gpus_per_node);
    const auto first = state_.owner.begin() + gpu, last = state_.owner.begin() + stop;
    if (!state_.parts.empty()) {
      std::fill(first, last, owner);
      recount(node);
    } else {
      const auto were_free =
          static_cast<std::uint32_t>(std::count(first, last, ClusterState::kNobody));
      std::fill(first, last, owner);
      const std::uint32_t now_free = owner == ClusterState::kNobody ? stop - gpu : 0;
      count_free(node, state_.free_per_node[node.value] + now_free - were_free);
    }
    gpu = stop;
  }
}

void World::claim(const GpuRuns& gpus, JobId job) {
  for (const GpuRuns::Run& run : gpus.runs()) own(run, job);
}

void World::recount(NodeId node) {
  const std::uint32_t size = cluster_->shape().gpus_per_node;
  std::uint32_t free = 0;
  for (std::uint32_t gpu = node.value * size; gpu < (node.value + 1) * size; ++gpu) {
    free += state_.owner[gpu] == ClusterState::kNobody && well({gpu}) ? 1 : 0;
  }
  count_free(node, free);
}

/// Those that are still the job's are nobody's.
void World::give_up(GpuRuns::Run run, JobId job) {
  const auto first = state_.owner.begin() + run.first;
  const bool all = std::all_of(first, first + run.count, [job](JobId of) { return of == job; });
  if (all) return own(run, ClusterState::kNobody);
  for (std::uint32_t gpu = run.first; gpu < run.first + run.count; ++gpu) {
    if (state_.owner[gpu] == job) own({gpu, 1}, ClusterState::kNobody);
  }
}

/// Its GPUs that are not among `kept` are nobody's, or whose they are to be.
void World::vacate(const JobInfo& job, const GpuRuns& kept) {
  const auto free = [&](const GpuRuns& gpus) {
    for_each_without(gpus, kept, [&](GpuRuns::Run run) { give_up(run, job.spec.id); });
  };
  if (job.gpus != kept) free(job.gpus);
  if (job.next && job.next->gpus != kept) free(job.next->gpus);
}

/// Every lost rank's GPU is well: it can be replaced where it stood.
bool World::lost_stand_well(const JobInfo& job) const {
  if (lost_hosts_ == 0) return true;
  auto lost = job.lost.begin();
  std::uint32_t rank = 0;
  for (const GpuId gpu : job.gpus) {
    if (lost == job.lost.end()) break;
    if (rank++ != lost->value) continue;
    if (!well(gpu)) return false;
    ++lost;
  }
  return true;
}

}  // namespace orrery

#include "policies/recovery/ways.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace orrery {
namespace {

bool is_well(const Observation& seen, GpuId gpu) {
  return seen.state.well(gpu, seen.cluster.node_of(gpu));
}

/// The first node from `from` on all of whose GPUs are free; the number of nodes if there is none.
std::uint32_t free_node(const Observation& seen, std::uint32_t from) {
  const std::uint32_t each = seen.cluster.shape().gpus_per_node;
  for (std::uint32_t node = from; node < seen.cluster.nodes(); ++node) {
    if (seen.state.free_per_node[node] == each) return node;
  }
  return seen.cluster.nodes();
}

}  // namespace

std::optional<Standing> whole_again(const Observation& seen, const JobInfo& job) {
  std::vector<GpuId> gpus = job.gpus.to_vector();
  std::map<std::uint32_t, std::uint32_t> moved;  // nodes, and those in their places
  std::uint32_t next = 0;
  for (const GpuId gpu : gpus) {
    const std::uint32_t node = seen.cluster.node_of(gpu).value;
    if (seen.state.parts.empty()) break;
    if (is_well(seen, gpu) || moved.contains(node)) continue;
    next = free_node(seen, next);
    if (next == seen.cluster.nodes()) return {};
    moved[node] = next++;
  }
  const std::uint32_t each = seen.cluster.shape().gpus_per_node;
  if (!moved.empty()) {
    for (GpuId& gpu : gpus) {
      const auto to = moved.find(seen.cluster.node_of(gpu).value);
      if (to != moved.end()) gpu = {to->second * each + gpu.value % each};
    }
  }
  return Standing{GpuRuns(gpus), job.layout};
}

std::optional<Standing> smaller(const JobInfo& job) {
  Standing where = without_lost(job);
  if (where.gpus.empty() || where.gpus.size() < job.spec.least()) return {};
  const std::uint64_t room = std::uint64_t{job.spec.max_micro_batches} * where.layout.data;
  if (room > 0 && room < job.spec.micro_batches) return {};
  return where;
}

std::optional<Standing> back_home(const Observation& seen, const JobInfo& job,
                                  const Standing& home) {
  const bool there = std::all_of(home.gpus.begin(), home.gpus.end(), [&](GpuId gpu) {
    const JobId owner = seen.state.owner[gpu.value];
    return is_well(seen, gpu) && (owner == ClusterState::kNobody || owner == job.spec.id);
  });
  return there ? std::optional(home) : std::nullopt;
}

StateFrom nearest_state(const JobInfo& job) {
  const std::vector<bool> lost = lost_replicas(job);
  const bool left = std::find(lost.begin(), lost.end(), false) != lost.end();
  return left && job.placed() ? StateFrom::peer : kept_state(job);
}

StateFrom kept_state(const JobInfo& job) {
  return job.saved_at > 0 ? StateFrom::checkpoint : StateFrom::none;
}

}  // namespace orrery

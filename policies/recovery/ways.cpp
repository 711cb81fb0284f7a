#include "policies/recovery/ways.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace orrery {
namespace {

bool is_well(const Observation& seen, GpuId gpu) {
  return seen.state.is_healthy(gpu, seen.cluster.node_of(gpu));
}

/// The first node from `from` on all of whose GPUs are free; the number of nodes if there is none.
std::uint32_t free_node(const Observation& seen, std::uint32_t from) {
  const std::uint32_t each = seen.cluster.shape().gpus_per_node;
  for (std::uint32_t node = from; node < seen.cluster.nodes(); ++node) {
    if (seen.state.free_per_node[node] == each) return node;
  }
  return seen.cluster.nodes();
}

/// Calls `each` with the node and the GPUs of every run, cut at nodes, in the order of ranks.
template <class Each>
void by_node(const GpuRuns& gpus, std::uint32_t size, const Each& each) {
  for (const GpuRuns::Run& run : gpus.runs()) {
    const std::uint32_t end = run.first + run.count;
    for (std::uint32_t first = run.first; first < end;) {
      const std::uint32_t node = first / size, stop = std::min(end, (node + 1) * size);
      each(node, GpuRuns::Run{first, stop - first});
      first = stop;
    }
  }
}

/// Nodes that are lost, or have lost GPUs: a few, of however many.
std::set<std::uint32_t> broken_nodes(const Observation& seen) {
  std::set<std::uint32_t> nodes;
  for (const auto& [part, state] : seen.state.parts) {
    if (state.health != Health::lost) continue;
    if (part.kind == PartKind::node) nodes.insert(part.index);
    if (part.kind == PartKind::gpu) nodes.insert(seen.cluster.node_of({part.index}).value);
  }
  return nodes;
}

bool all_well(const Observation& seen, GpuRuns::Run run) {
  for (std::uint32_t gpu = run.first; gpu < run.first + run.count; ++gpu) {
    if (!is_well(seen, {gpu})) return false;
  }
  return true;
}

}  // namespace

std::optional<Standing> whole_again(const Observation& seen, const JobInfo& job) {
  const std::set<std::uint32_t> broken = broken_nodes(seen);
  const std::uint32_t size = seen.cluster.shape().gpus_per_node;
  std::map<std::uint32_t, std::uint32_t> moved;  // nodes, and those in their places
  std::uint32_t next = 0;
  by_node(job.gpus, size, [&](std::uint32_t node, GpuRuns::Run run) {
    if (!broken.contains(node) || moved.contains(node) || all_well(seen, run)) return;
    next = free_node(seen, next);
    moved[node] = next++;
  });
  if (moved.empty()) return Standing{job.gpus, job.layout};
  if (next > seen.cluster.nodes()) return {};
  GpuRuns gpus;
  by_node(job.gpus, size, [&](std::uint32_t node, GpuRuns::Run run) {
    const auto to = moved.find(node);
    const std::uint32_t there = to == moved.end() ? node : to->second;
    gpus.append_run({there * size + run.first % size, run.count});
  });
  return Standing{std::move(gpus), job.layout};
}

std::optional<Standing> smaller(const JobInfo& job) {
  Standing where = without_lost(job);
  if (where.gpus.empty() || where.gpus.size() < job.spec.least()) return {};
  if (!fits_replicas(job.spec, job.micro_batches(), where.layout.data)) return {};
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
  return left && job.is_placed() ? StateFrom::peer : kept_state(job);
}

StateFrom kept_state(const JobInfo& job) {
  return job.saved_at > 0 ? StateFrom::checkpoint : StateFrom::none;
}

}  // namespace orrery

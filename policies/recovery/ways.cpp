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

bool stays(const Observation& seen, GpuId gpu) {
  return !seen.state.is_to_be_removed(gpu, seen.cluster.node_of(gpu));
}

/// Free GPUs that stay in the cluster, by node. Each can be taken once.
class StayingGpus {
 public:
  explicit StayingGpus(const Observation& seen) {
    for (std::uint32_t gpu = 0; gpu < seen.state.owner.size(); ++gpu) {
      const bool free = seen.state.owner[gpu] == ClusterState::kNobody && is_well(seen, {gpu});
      if (!free || !stays(seen, {gpu})) continue;
      by_node_[seen.cluster.node_of({gpu}).value].push_back({gpu});
    }
  }

  /// Takes `count` GPUs: of the first node that has as many or else, unless `together`, the first
  /// ones. Empty, without effect, if there are too few.
  std::vector<GpuId> take_gpus(std::size_t count, bool together) {
    for (auto& [node, gpus] : by_node_) {
      if (gpus.size() >= count) return take_first(gpus, count);
    }
    std::size_t all = 0;
    for (const auto& [node, gpus] : by_node_) all += gpus.size();
    std::vector<GpuId> taken;
    if (together || all < count) return taken;
    for (auto& [node, gpus] : by_node_) {
      const auto some = take_first(gpus, std::min(gpus.size(), count - taken.size()));
      taken.insert(taken.end(), some.begin(), some.end());
    }
    return taken;
  }

 private:
  static std::vector<GpuId> take_first(std::vector<GpuId>& from, std::size_t count) {
    const auto end = from.begin() + static_cast<std::ptrdiff_t>(count);
    const std::vector<GpuId> taken(from.begin(), end);
    from.erase(from.begin(), end);
    return taken;
  }

  std::map<std::uint32_t, std::vector<GpuId>> by_node_;
};

/// Returns the GPUs in ascending order, as live runs require, unless the job is model-parallel:
/// the ranks of other jobs are alike.
GpuRuns in_order(std::vector<GpuRuns::Run> runs, const ParallelLayout& layout) {
  if (layout.ranks_per_replica() == 1) {
    std::sort(runs.begin(), runs.end(),
              [](GpuRuns::Run a, GpuRuns::Run b) { return a.first < b.first; });
  }
  GpuRuns gpus;
  for (const GpuRuns::Run& run : runs) gpus.append_run(run);
  return gpus;
}

GpuRuns in_order(const std::vector<GpuId>& gpus, const ParallelLayout& layout) {
  std::vector<GpuRuns::Run> runs;
  for (const GpuId gpu : gpus) runs.push_back({gpu.value, 1});
  return in_order(std::move(runs), layout);
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
  std::vector<GpuRuns::Run> runs;
  by_node(job.gpus, size, [&](std::uint32_t node, GpuRuns::Run run) {
    const auto to = moved.find(node);
    const std::uint32_t there = to == moved.end() ? node : to->second;
    runs.push_back({there * size + run.first % size, run.count});
  });
  return Standing{in_order(std::move(runs), job.layout), job.layout};
}

std::optional<Standing> smaller(const JobInfo& job) {
  Standing where = without_lost(job);
  if (where.gpus.empty() || where.gpus.size() < job.spec.least()) return {};
  if (!fits_replicas(job.spec, job.micro_batches(), where.layout)) return {};
  return where;
}

std::vector<RankId> leaving_ranks(const Observation& seen, const JobInfo& job) {
  std::vector<RankId> ranks;
  std::uint32_t rank = 0;
  for (const GpuId gpu : job.gpus) {
    if (is_well(seen, gpu) && !stays(seen, gpu)) ranks.push_back({rank});
    ++rank;
  }
  return ranks;
}

std::optional<Nanos> next_removal(const Observation& seen, const JobInfo& job) {
  std::optional<Nanos> first;
  for (const RankId rank : leaving_ranks(seen, job)) {
    const GpuId gpu = job.gpus[rank.value];
    for (const Part part :
         {Part{PartKind::gpu, gpu.value}, Part{PartKind::node, seen.cluster.node_of(gpu).value}}) {
      const auto found = seen.state.parts.find(part);
      if (found == seen.state.parts.end() || !found->second.removal) continue;
      const std::optional<Nanos> at = found->second.removal->at;
      if (at && (!first || *at < *first)) first = at;
    }
  }
  return first;
}

std::optional<Standing> moved_away(const Observation& seen, const JobInfo& job) {
  std::vector<GpuId> gpus = job.gpus.to_vector();
  const bool together = job.layout.ranks_per_replica() > 1;
  std::map<std::uint32_t, std::vector<std::size_t>> moves;  // ranks to move, by node
  for (const RankId rank : leaving_ranks(seen, job)) {
    moves[seen.cluster.node_of(gpus[rank.value]).value].push_back(rank.value);
  }
  for (std::size_t rank = 0; together && rank < gpus.size(); ++rank) {
    const auto node = moves.find(seen.cluster.node_of(gpus[rank]).value);
    if (node == moves.end()) continue;
    auto& ranks = node->second;
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
  StayingGpus spare(seen);
  for (auto& [node, ranks] : moves) {
    std::sort(ranks.begin(), ranks.end());
    const std::vector<GpuId> to = spare.take_gpus(ranks.size(), together);
    if (to.empty()) return {};
    for (std::size_t i = 0; i < to.size(); ++i) gpus[ranks[i]] = to[i];
  }
  return Standing{in_order(gpus, job.layout), job.layout};
}

std::optional<Standing> smaller_away(const Observation& seen, const JobInfo& job) {
  JobInfo without = job;
  without.lost = leaving_ranks(seen, job);
  return smaller(without);
}

Standing grown(const Observation& seen, const JobInfo& job, std::size_t gpus) {
  Standing where{job.gpus, job.layout};
  if (job.gpus.empty()) where.layout = job.spec.layout;
  const std::uint32_t replica = where.layout.ranks_per_replica();
  std::vector<GpuId> all = job.gpus.to_vector();
  StayingGpus spare(seen);
  while (all.size() + replica <= gpus) {
    const auto added = spare.take_gpus(replica, replica <= seen.cluster.shape().gpus_per_node);
    if (added.empty()) break;
    all.insert(all.end(), added.begin(), added.end());
  }
  where.layout.data = static_cast<std::uint32_t>(all.size() / replica);
  where.gpus = in_order(all, where.layout);
  return where;
}

std::optional<Standing> back_home(const Observation& seen, const JobInfo& job,
                                  const Standing& home) {
  const bool there = std::all_of(home.gpus.begin(), home.gpus.end(), [&](GpuId gpu) {
    const JobId owner = seen.state.owner[gpu.value];
    return is_well(seen, gpu) && stays(seen, gpu) &&
           (owner == ClusterState::kNobody || owner == job.spec.id);
  });
  return there ? std::optional(home) : std::nullopt;
}

StateFrom nearest_state(const JobInfo& job) {
  const std::vector<bool> lost = lost_replicas(job);
  const bool left = std::find(lost.begin(), lost.end(), false) != lost.end();
  return left && job.is_placed() && !job.is_corrupted ? StateFrom::peer : kept_state(job);
}

StateFrom kept_state(const JobInfo& job) {
  return job.saved_at > 0 ? StateFrom::checkpoint : StateFrom::none;
}

bool lacks_recovery(const JobInfo& job) {
  const bool is_at_work = job.phase == JobPhase::running || job.phase == JobPhase::held;
  return is_at_work && !job.lost.empty() && !job.next;
}

}  // namespace orrery

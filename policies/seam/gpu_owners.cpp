#include "policies/seam/gpu_owners.hpp"

#include <algorithm>
#include <bit>

#include "policies/seam/gpu_sets.hpp"

namespace orrery {

namespace {

std::uint32_t ones(std::uint64_t bits) { return static_cast<std::uint32_t>(std::popcount(bits)); }

/// Calls `each` for every word that contains some of the `count` bits from bit `first` on, with the
/// word, the mask of these bits in the word, and their number.
template <class Each>
void for_each_word(std::uint64_t* words, std::uint32_t first, std::uint32_t count,
                   const Each& each) {
  for (const std::uint32_t end = first + count; first < end;) {
    const std::uint32_t here = std::min(64 - first % 64, end - first);
    each(words[first / 64], (~std::uint64_t{0} >> (64 - here)) << first % 64, here);
    first += here;
  }
}

void set_free(ClusterState& state, NodeId node, std::uint32_t free) {
  std::uint32_t& now = state.free_per_node[node.value];
  if (now == free) return;
  state.free += free - now;
  now = free;
  state.changed_nodes[state.changes++ % state.changed_nodes.size()] = node.value;
}

}  // namespace

bool unclaimed(const ClusterState& state, GpuRuns::Run run, JobId job) {
  if (std::uint64_t{run.first} + run.count > state.owner.size()) return false;
  const auto first = state.owner.begin() + run.first;
  return std::all_of(first, first + run.count,
                     [job](JobId owner) { return owner == ClusterState::kNobody || owner == job; });
}

void GpuOwners::count_free(NodeId node) {
  std::uint32_t free = 0;
  const std::size_t words = state_.words_per_node;
  for (std::size_t i = node.value * words; i < (node.value + 1) * words; ++i) {
    free += ones(state_.free_bits[i]);
  }
  set_free(state_, node, free);
}

/// Updates the bits and the count without a loop over GPUs, because most changes of ownership in a
/// replay of a job log take this path.
void GpuOwners::mark_free(NodeId node, GpuRuns::Run run, bool free) {
  std::uint64_t* const words = &state_.free_bits[node.value * std::size_t{state_.words_per_node}];
  const std::uint32_t first = run.first - node.value * cluster_.shape().gpus_per_node;
  std::uint32_t now = state_.free_per_node[node.value];
  const auto mark = [&now, free](std::uint64_t& word, std::uint64_t bits, std::uint32_t count) {
    const std::uint64_t were = word & bits;  // nearly always all bits, or none
    now -= were == 0 ? 0 : were == bits ? count : ones(were);
    now += free ? count : 0;
    word = free ? word | bits : word & ~bits;
  };
  if (first + run.count <= 64) {
    mark(*words, (~std::uint64_t{0} >> (64 - run.count)) << first, run.count);
  } else {
    for_each_word(words, first, run.count, mark);
  }
  set_free(state_, node, now);
}

void GpuOwners::own(GpuRuns::Run run, JobId owner) {
  std::fill_n(state_.owner.begin() + run.first, run.count, owner);
  const bool frees = owner == ClusterState::kNobody;
  const std::uint32_t size = cluster_.shape().gpus_per_node;
  std::uint32_t node = run.first / size, end = (node + 1) * size;
  for (; run.count > 0; ++node, end += size) {
    const GpuRuns::Run here{run.first, std::min(run.count, end - run.first)};
    if (some_lost_) {
      recount_free({node});
    } else if (here.count == size && size <= 64) {
      state_.free_bits[node] = frees ? ~std::uint64_t{0} >> (64 - size) : 0;
      set_free(state_, {node}, frees ? size : 0);
    } else {
      mark_free({node}, here, frees);
    }
    run = {end, run.count - here.count};
  }
}

void GpuOwners::claim_gpus(const GpuRuns& gpus, JobId job) {
  for (const GpuRuns::Run& run : gpus.runs()) own(run, job);
}

void GpuOwners::recount_free(NodeId node) {
  const std::uint32_t size = cluster_.shape().gpus_per_node, first = node.value * size;
  std::uint64_t* const words = &state_.free_bits[node.value * std::size_t{state_.words_per_node}];
  for (std::uint32_t at = 0; at < size; ++at) {
    const GpuId gpu{first + at};
    const bool free =
        state_.owner[gpu.value] == ClusterState::kNobody && state_.is_healthy(gpu, node);
    const std::uint64_t bit = std::uint64_t{1} << at % 64;
    words[at / 64] = free ? words[at / 64] | bit : words[at / 64] & ~bit;
  }
  count_free(node);
}

void GpuOwners::release_run(GpuRuns::Run run, JobId job) {
  const auto first = state_.owner.begin() + run.first;
  const bool all = std::all_of(first, first + run.count, [job](JobId of) { return of == job; });
  if (all) return own(run, ClusterState::kNobody);
  for (std::uint32_t gpu = run.first; gpu < run.first + run.count; ++gpu) {
    if (state_.owner[gpu] == job) own({gpu, 1}, ClusterState::kNobody);
  }
}

void GpuOwners::vacate_gpus(const JobInfo& job, const GpuRuns& kept) {
  const auto free = [&](const GpuRuns& gpus) {
    if (kept.empty()) {
      for (const GpuRuns::Run& run : gpus.runs()) release_run(run, job.spec.id);
      return;
    }
    for_each_without(gpus, kept, [&](GpuRuns::Run run) { release_run(run, job.spec.id); });
  };
  if (job.gpus != kept) free(job.gpus);
  if (job.next && job.next->gpus != kept) free(job.next->gpus);
}

}  // namespace orrery

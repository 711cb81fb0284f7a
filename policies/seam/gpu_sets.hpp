// Set operations on lists of GPUs (GpuRuns): difference, and search for a GPU that a list contains
// twice. They take O(runs) if the runs are in ascending order, which is the common case. Used by
// World. Pure functions; thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "policies/seam/gpu_runs.hpp"

namespace orrery {

/// Order of runs by their first GPU.
inline constexpr auto starts_before = [](const GpuRuns::Run& a, const GpuRuns::Run& b) {
  return a.first < b.first;
};

/// Calls `use` with the runs in ascending order and returns its result. Copies the runs only if
/// they are not in ascending order.
template <class Use>
auto with_ascending(const GpuRuns& gpus, const Use& use) {
  const std::span<const GpuRuns::Run> runs = gpus.runs();
  if (std::is_sorted(runs.begin(), runs.end(), starts_before)) return use(runs);
  std::vector<GpuRuns::Run> in_order(runs.begin(), runs.end());
  std::sort(in_order.begin(), in_order.end(), starts_before);
  return use(std::span<const GpuRuns::Run>(in_order));
}

/// Returns a message about a GPU that the list contains twice; empty if no GPU is repeated.
inline std::string named_twice(const GpuRuns& gpus) {
  if (gpus.runs().size() < 2) return {};
  return with_ascending(gpus, [](std::span<const GpuRuns::Run> runs) -> std::string {
    for (std::size_t i = 1; i < runs.size(); ++i) {
      if (runs[i].first >= runs[i - 1].first + runs[i - 1].count) continue;
      return fmt::format("GPU {} is named twice", runs[i].first);
    }
    return {};
  });
}

/// Calls `each` with the parts of `run` that are not among `kept`, which must be ascending, in
/// ascending order. Removes the passed runs from the front of `kept`, so that the calls for
/// ascending runs take O(runs) together; a later call with the same `kept` must therefore have a
/// later run.
template <class Each>
void for_each_without(const GpuRuns::Run& run, std::span<const GpuRuns::Run>& kept,
                      const Each& each) {
  const std::uint32_t end = run.first + run.count;
  for (std::uint32_t gpu = run.first; gpu < end;) {
    while (!kept.empty() && kept.front().first + kept.front().count <= gpu) kept = kept.subspan(1);
    const bool within = !kept.empty() && kept.front().first <= gpu;
    const std::uint32_t next = kept.empty() ? end
                               : within     ? kept.front().first + kept.front().count
                                            : kept.front().first;
    const std::uint32_t stop = std::min(end, next);
    if (!within) each(GpuRuns::Run{gpu, stop - gpu});
    gpu = stop;
  }
}

/// Calls `each` with the parts of `gpus` that are not among `kept`, in ascending order. Takes
/// O(runs) if both lists are ascending. For example, with `gpus` {0, 8} and `kept` {2, 3}, `each`
/// gets {0, 2} and {5, 3}.
template <class Each>
void for_each_without(const GpuRuns& gpus, const GpuRuns& kept, const Each& each) {
  with_ascending(gpus, [&](std::span<const GpuRuns::Run> runs) {
    return with_ascending(kept, [&](std::span<const GpuRuns::Run> not_these) {
      for (const GpuRuns::Run& run : runs) for_each_without(run, not_these, each);
    });
  });
}

}  // namespace orrery

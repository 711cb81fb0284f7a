#include "policies/placement/consolidated.hpp"

#include <algorithm>

namespace orrery {
namespace {

/// The node with the fewest free GPUs that has at least `count`, not among `excluded` (ascending).
std::optional<std::uint32_t> best_fit(const FreeGpus& free, std::uint32_t count,
                                      const std::vector<std::uint32_t>& excluded) {
  std::optional<std::uint32_t> best;
  for (std::uint32_t node = 0; node < free.nodes(); ++node) {
    const std::uint32_t here = free.in_node(node);
    if (here < count || (best && here >= free.in_node(*best))) continue;
    if (std::binary_search(excluded.begin(), excluded.end(), node)) continue;
    best = node;
    if (here == count) break;
  }
  return best;
}

}  // namespace

std::optional<GpuRuns> ConsolidatedPlacer::place(const JobSpec& job,
                                                            FreeGpus& free) const {
  if (job.gpus > free.total()) return {};
  const std::uint32_t size = free.gpus_per_node();
  const std::uint32_t wanted = job.gpus <= size ? 0 : job.gpus / size;
  const std::uint32_t remainder = job.gpus - wanted * size;
  std::vector<std::uint32_t> whole;
  for (std::uint32_t node = 0; node < free.nodes() && whole.size() < wanted; ++node) {
    if (free.in_node(node) == size) whole.push_back(node);
  }
  if (whole.size() < wanted) return {};
  std::optional<std::uint32_t> last;
  if (remainder > 0) {
    last = best_fit(free, remainder, whole);
    if (!last) return {};
  }
  GpuRuns gpus;
  for (const std::uint32_t node : whole) free.take(node, size, gpus);
  if (last) free.take(*last, remainder, gpus);
  return gpus;
}

}  // namespace orrery

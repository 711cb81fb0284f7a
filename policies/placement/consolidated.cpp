#include "policies/placement/consolidated.hpp"

namespace orrery {
namespace {

/// The node with the fewest free GPUs that has at least `count`; of idle ones only those from
/// `first_idle` on. nodes() if there is none.
std::uint32_t best_fit(const FreeGpus& free, std::uint32_t count, std::uint32_t first_idle) {
  for (std::uint32_t here = count; here < free.gpus_per_node(); ++here) {
    const std::uint32_t node = free.first_with(here);
    if (node < free.nodes()) return node;
  }
  return free.first_with(free.gpus_per_node(), first_idle);
}

}  // namespace

std::optional<GpuRuns> ConsolidatedPlacer::place_gpus(std::uint32_t gpus, const ParallelLayout&,
                                                      FreeGpus& free) const {
  if (gpus > free.whole_gpus()) return {};
  const std::uint32_t size = free.gpus_per_node();
  const std::uint32_t wanted = gpus <= size ? 0 : gpus / size;
  const std::uint32_t remainder = gpus - wanted * size;
  if (free.nodes_with(size) < wanted) return {};
  std::vector<std::uint32_t> whole;
  for (std::uint32_t next = 0; whole.size() < wanted; next = whole.back() + 1) {
    whole.push_back(free.first_with(size, next));
  }
  const std::uint32_t last =
      remainder == 0 ? 0 : best_fit(free, remainder, whole.empty() ? 0 : whole.back() + 1);
  if (last == free.nodes()) return {};
  GpuRuns out;
  for (const std::uint32_t node : whole) free.take_gpus(node, size, out);
  if (remainder > 0) free.take_gpus(last, remainder, out);
  return out;
}

}  // namespace orrery

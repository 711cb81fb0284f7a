#include "policies/placement/count.hpp"

#include <algorithm>

namespace orrery {

std::optional<GpuRuns> CountPlacer::place_gpus(std::uint32_t gpus, const ParallelLayout&,
                                               FreeGpus& free) const {
  if (gpus > free.whole_gpus()) return {};
  GpuRuns out;
  std::uint32_t missing = gpus;
  for (std::uint32_t node = free.first_not_full(); missing > 0;
       node = free.first_not_full(node + 1)) {
    const std::uint32_t here = std::min(missing, free.in_node(node));
    free.take_gpus(node, here, out);
    missing -= here;
  }
  return out;
}

}  // namespace orrery

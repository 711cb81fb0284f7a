#include "policies/placement/count.hpp"

#include <algorithm>

namespace orrery {

std::optional<GpuRuns> CountPlacer::place_job(const JobSpec& job, FreeGpus& free) const {
  if (job.gpus > free.total()) return {};
  GpuRuns gpus;
  std::uint32_t missing = job.gpus;
  for (std::uint32_t node = free.first_not_full(); missing > 0;
       node = free.first_not_full(node + 1)) {
    const std::uint32_t here = std::min(missing, free.in_node(node));
    free.take_gpus(node, here, gpus);
    missing -= here;
  }
  return gpus;
}

}  // namespace orrery

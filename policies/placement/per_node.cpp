#include "policies/placement/per_node.hpp"

#include <algorithm>

namespace orrery {

std::optional<GpuRuns> PerNodePlacer::place_job(const JobSpec& job, FreeGpus& free) const {
  const std::uint32_t count = std::max(1u, job.layout.pipeline);
  const std::uint32_t each = (job.gpus + count - 1) / count;
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t here = each; here <= free.gpus_per_node() && nodes.size() < count; ++here) {
    for (std::uint32_t node = free.first_with(here); node < free.nodes() && nodes.size() < count;
         node = free.first_with(here, node + 1)) {
      nodes.push_back(node);
    }
  }
  if (nodes.size() < count) return {};
  std::sort(nodes.begin(), nodes.end());
  GpuRuns gpus;
  std::uint32_t left = job.gpus;
  for (const std::uint32_t node : nodes) {
    const std::uint32_t taken = std::min(each, left);
    free.take_gpus(node, taken, gpus);
    left -= taken;
  }
  return gpus;
}

}  // namespace orrery

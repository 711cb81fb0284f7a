#include "sim/training/resharding.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace orrery::sim {
namespace {

/// Returns the bytes of the training state that a rank of each stage holds.
std::vector<double> state_of_stages(const StepGraph& graph) {
  std::vector<double> bytes;
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    const MemoryUse use = graph.memory(stage, 1);
    bytes.push_back(use.parameters.value + use.optimizer.value);
  }
  return bytes;
}

bool is_one_domain(const Cluster& cluster, const std::vector<GpuId>& gpus, std::uint32_t domain) {
  return std::all_of(gpus.begin(), gpus.end(),
                     [&](GpuId gpu) { return cluster.domain_of(gpu) == domain; });
}

}  // namespace

Nanos reshard_time(const Cluster& cluster, const FittedJob& before, FittedJob& after) {
  if (after.where().layout.has_replicas_of(before.where().layout)) return 0;
  const std::vector<GpuId> from = before.where().gpus.to_vector();
  const std::vector<GpuId> to = after.where().gpus.to_vector();
  const std::uint32_t domain = cluster.domain_of(to.front());
  const bool inside = is_one_domain(cluster, from, domain) && is_one_domain(cluster, to, domain);
  std::map<LinkId, double> loads;
  double sum = 0;
  const std::vector<double> bytes = state_of_stages(after.graph());
  for (std::uint32_t rank = 0; rank < to.size(); ++rank) {
    const GpuId gpu = to[rank];
    const double part = bytes[after.graph().position({rank}).stage];
    loads[inside ? cluster.nvlink_in(gpu)
                 : cluster.nic_in(cluster.node_of(gpu), cluster.rail_of(gpu))] += part;
    sum += part;
  }
  for (const GpuId gpu : from) {
    loads[inside ? cluster.nvlink_out(gpu)
                 : cluster.nic_out(cluster.node_of(gpu), cluster.rail_of(gpu))] +=
        sum / static_cast<double>(from.size());
  }
  double longest = 0;
  for (const auto& [link, load] : loads) {
    longest = std::max(longest, load / after.stepper().effective_bandwidth(link, {}));
  }
  return to_nanos(longest);
}

}  // namespace orrery::sim

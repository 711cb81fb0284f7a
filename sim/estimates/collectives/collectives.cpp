#include "sim/estimates/collectives/collectives.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/estimates/collectives/collective_scheduler.hpp"
#include "sim/estimates/collectives/protocols.hpp"

namespace orrery::estimates {
namespace {

void check_groups(const Cluster& cluster, const std::vector<GpuGroup>& groups) {
  for (const GpuGroup& group : groups) {
    if (group.empty() || group.size() != groups.front().size()) {
      throw Error(ErrorKind::bad_input,
                  "collective: expected non-empty groups of one size, found an "
                  "empty group or groups of different sizes; give every "
                  "group the same number of GPUs");
    }
    for (const GpuId gpu : group) {
      if (gpu.value < cluster.gpus()) continue;
      throw Error(ErrorKind::bad_input,
                  fmt::format("collective: expected GPUs below {1}, found GPU {0}; "
                              "use GPUs of this cluster",
                              gpu.value, cluster.gpus()));
    }
  }
}

}  // namespace

CollectiveSchedule collective_schedule(const Cluster& cluster, CollectiveKind kind,
                                       CollectiveAlgorithm algorithm,
                                       const std::vector<GpuGroup>& groups) {
  if (groups.empty()) return {algorithm, {}};
  check_groups(cluster, groups);
  ensure(algorithm != CollectiveAlgorithm::automatic,
         "a schedule is made by a concrete algorithm, not by automatic");
  return CollectiveScheduler(cluster, kind, groups).make_schedule(algorithm);
}

Seconds uncontended_time(const Cluster& cluster, const CostProfile& profile,
                         const CollectiveSchedule& schedule, Bytes size) {
  Seconds total;
  for (const CollectivePhase& phase : schedule.phases) {
    double slowest = 0;  // seconds per byte of a flow
    for (const LinkLoad& load : phase.links) {
      slowest = std::max(slowest, load.flows / link_rate(cluster, profile, load.link));
    }
    total += phase.latency + Seconds{size.value * phase.share * slowest};
  }
  return total;
}

CollectiveAlgorithm choose_algorithm(const Cluster& cluster, const CostProfile& profile,
                                     CollectiveKind kind, const std::vector<GpuGroup>& groups,
                                     Bytes size) {
  using enum CollectiveAlgorithm;
  static constexpr CollectiveAlgorithm kAll[] = {ring,   tree, hierarchical,
                                                 direct, nvls, halving_doubling};
  return fastest_alone(cluster, profile, kind, groups, size, kAll).value_or(automatic);
}

double link_rate(const Cluster& cluster, const CostProfile& profile, LinkId link) {
  const Link description = cluster.link(link);
  const bool inside =
      description.kind == LinkKind::nvlink_in || description.kind == LinkKind::nvlink_out;
  const double rate = description.bandwidth.value * (inside ? profile.nvlink : profile.network);
  return profile.link_limit > 0 ? 1 / (1 / rate + 1 / profile.link_limit) : rate;
}

std::vector<GpuGroup> ring_channels(const Cluster& cluster, const GpuGroup& members) {
  const std::vector<GpuGroup> domains = by_domain(cluster, members);
  const std::size_t each = domains.front().size();
  const bool even = std::all_of(domains.begin(), domains.end(),
                                [&](const GpuGroup& domain) { return domain.size() == each; });
  std::vector<GpuGroup> channels(even && domains.size() > 1 ? each : 1);
  for (std::size_t channel = 0; channel < channels.size(); ++channel) {
    for (std::size_t d = 0; d < domains.size(); ++d) {
      // Every second domain is passed in reverse order, so that the ring enters and leaves a domain
      // on the same rail.
      const std::size_t size = domains[d].size();
      for (std::size_t i = 0; i < size; ++i) {
        channels[channel].push_back(domains[d][(channel + (d % 2 == 0 ? i : size - 1 - i)) % size]);
      }
    }
  }
  return channels;
}

}  // namespace orrery::estimates

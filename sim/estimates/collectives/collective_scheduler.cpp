#include "sim/estimates/collectives/collective_scheduler.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "sim/estimates/collectives/halving_doubling.hpp"
#include "sim/estimates/collectives/hierarchical_schedule.hpp"
#include "sim/estimates/collectives/nvls_schedule.hpp"
#include "sim/estimates/collectives/tree_schedule.hpp"

namespace orrery::estimates {

CollectiveScheduler::CollectiveScheduler(const Cluster& cluster, CollectiveKind kind,
                                         const std::vector<GpuGroup>& groups)
    : kind_(kind), who_(cluster, groups), phases_(cluster) {}

bool CollectiveScheduler::lay_out(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::ring: return ring();
    case CollectiveAlgorithm::tree: return TreeSchedule(who_, phases_).lay_out(kind_);
    case CollectiveAlgorithm::hierarchical:
      return HierarchicalSchedule(who_, phases_).lay_out(kind_);
    case CollectiveAlgorithm::direct: return direct();
    case CollectiveAlgorithm::nvls: return NvlsSchedule(who_, phases_).lay_out(kind_);
    case CollectiveAlgorithm::halving_doubling:
      return HalvingDoubling(who_, phases_).lay_out(kind_);
    case CollectiveAlgorithm::automatic: break;
  }
  return false;
}

CollectiveSchedule CollectiveScheduler::make_schedule(CollectiveAlgorithm algorithm) {
  CollectiveSchedule made;
  made.algorithm = algorithm;
  made.per_domain = std::max(made.per_domain, who_.largest_domain());
  if (who_.size() < 2) return made;
  if (!lay_out(algorithm)) {
    made.algorithm = CollectiveAlgorithm::ring;
    if (!ring()) {
      made.algorithm = CollectiveAlgorithm::direct;
      ensure(direct(), "the direct algorithm serves every group");
    }
  }
  made.phases = phases_.drain_phases();
  return made;
}

bool CollectiveScheduler::ring() {
  if (kind_ == CollectiveKind::all_to_all || kind_ == CollectiveKind::send_receive) return false;
  const bool closed = kind_ != CollectiveKind::broadcast;
  const std::uint32_t count = who_.is_even() && who_.spans() > 1 ? who_.members_per_domain() : 1;
  const double rounds = ring_passes(kind_) * (who_.size() - 1);
  MessageWay all;  // a chunk passes around the ring once: a round costs the mean of the edges
  for (const GpuGroup& group : who_.groups()) {
    std::vector<GpuGroup> channels = ring_channels(who_.cluster(), group);
    channels.resize(count);
    for (GpuGroup& channel : channels) {
      if (!closed) {  // the ring of a broadcast begins at its root
        std::rotate(channel.begin(), std::find(channel.begin(), channel.end(), group.front()),
                    channel.end());
      }
      keep_longer(all, phases_.add_ring(channel, closed), rounds);
    }
  }
  phases_.close((closed ? rounds / who_.size() : 1) / count, rounds, all);
  return true;
}

bool CollectiveScheduler::direct() {
  MessageWay all;
  for (const GpuGroup& group : who_.groups()) keep_longer(all, phases_.worst_way(group));
  const std::uint32_t phases = kind_ == CollectiveKind::all_reduce ? 2 : 1;
  for (std::uint32_t phase = 0; phase < phases; ++phase) {
    for (const GpuGroup& group : who_.groups()) {
      if (kind_ == CollectiveKind::send_receive) {
        phases_.flows().add_flows(group.front(), group.back());
      } else if (kind_ == CollectiveKind::broadcast) {
        for (const GpuId to : group) phases_.flows().add_flows(group.front(), to);
      } else {
        phases_.flows().add_all_pairs(group);
      }
    }
    const bool whole = kind_ == CollectiveKind::send_receive || kind_ == CollectiveKind::broadcast;
    phases_.close(whole ? 1 : 1.0 / who_.size(), 1, all);
  }
  return true;
}

}  // namespace orrery::estimates

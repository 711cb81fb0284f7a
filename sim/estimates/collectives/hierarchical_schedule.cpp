#include "sim/estimates/collectives/hierarchical_schedule.hpp"

#include <cmath>

namespace orrery::estimates {

/// `passes` as returned by ring_passes().
void HierarchicalSchedule::inner_rings(double passes, std::uint32_t times, MessageWay& all) {
  MessageWay longest;
  for (const auto& domains : who_.domains()) {
    for (const GpuGroup& domain : domains) {
      keep_longer(longest, phases_.add_ring(domain, true, times),
                  passes * (who_.members_per_domain() - 1));
    }
  }
  all.latency += longest.latency;
}

void HierarchicalSchedule::rail_rings(double passes, bool closed, std::uint32_t times,
                                      MessageWay& all) {
  MessageWay longest;
  for (const auto& domains : who_.domains()) {
    for (std::uint32_t k = 0; k < who_.members_per_domain(); ++k) {
      keep_longer(longest, phases_.add_ring(CollectiveGroups::rail(domains, k), closed, times),
                  passes * (who_.spans() - 1));
    }
  }
  all.far += longest.far;
  all.latency += longest.latency;
}

/// Earlier and later chunks are inside domains while one chunk is on the rails. A flow stands for a
/// fraction 1 / parts of a rail edge's traffic, so that an edge inside a domain carries a nearly
/// whole number of flows.
void HierarchicalSchedule::overlapped_rings(double passes) {
  constexpr std::uint32_t kMostParts = 16;
  const double ratio =
      // Traffic of an inside edge over traffic of a rail edge.
      (who_.members_per_domain() - 1.0) * who_.spans() / (who_.spans() - 1.0);
  std::uint32_t parts = 1;
  double least = 1;
  for (std::uint32_t tried = 1; tried <= kMostParts; ++tried) {
    const double off = std::abs(std::round(ratio * tried) / (ratio * tried) - 1);
    if (off >= least - 1e-9) continue;
    least = off;
    parts = tried;
  }
  MessageWay all;
  inner_rings(passes, static_cast<std::uint32_t>(std::lround(ratio * parts)), all);
  rail_rings(passes, true, parts, all);
  phases_.close(passes * (who_.spans() - 1) / who_.spans() / who_.members_per_domain() / parts,
                passes * (who_.members_per_domain() - 1 + who_.spans() - 1), all);
}

/// The three parts run chunk by chunk at once and therefore form one phase.
void HierarchicalSchedule::broadcast() {
  MessageWay all;
  for (const auto& domains : who_.domains()) {
    const GpuGroup& first = domains.front();
    for (const GpuId to : first) phases_.flows().add_flows(first.front(), to);
    keep_longer(all, phases_.way(first.front(), first.back()));
  }
  inner_rings(1, who_.members_per_domain() - 1, all);
  rail_rings(1, false, 1, all);
  phases_.close(1.0 / who_.members_per_domain(),
                1 + (who_.members_per_domain() - 1) + (who_.spans() - 1), all);
}

bool HierarchicalSchedule::lay_out(CollectiveKind kind) {
  if (!who_.is_even() || who_.members_per_domain() < 2 || who_.spans() < 2) return false;
  switch (kind) {
    case CollectiveKind::all_reduce: overlapped_rings(2); return true;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather: overlapped_rings(1); return true;
    case CollectiveKind::broadcast: broadcast(); return true;
    case CollectiveKind::send_receive: return false;
    case CollectiveKind::all_to_all: all_to_all(); return true;
  }
  return false;
}

/// Data goes first to the member of the own domain with the destination's index, then along the
/// rail.
void HierarchicalSchedule::all_to_all() {
  for (const auto& domains : who_.domains()) {
    for (const GpuGroup& domain : domains) phases_.flows().add_all_pairs(domain);
  }
  phases_.close(1.0 / who_.members_per_domain(), 1,
                {0, who_.cluster().shape().nvlink_latency.value});
  MessageWay all;
  for (const auto& domains : who_.domains()) {
    for (std::uint32_t k = 0; k < who_.members_per_domain(); ++k) {
      const GpuGroup peers = CollectiveGroups::rail(domains, k);
      phases_.flows().add_all_pairs(peers);
      keep_longer(all, phases_.worst_way(peers));
    }
  }
  phases_.close(1.0 / who_.spans(), 1, all);
}

}  // namespace orrery::estimates

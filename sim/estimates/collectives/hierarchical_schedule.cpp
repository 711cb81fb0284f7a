#include "sim/estimates/collectives/hierarchical_schedule.hpp"

#include <cmath>

namespace orrery::estimates {

/// Rings inside all domains; `passes` as ring_passes(). What their rounds take is added to `all`.
void HierarchicalSchedule::inner_rings(double passes, std::uint32_t times, MessageWay& all) {
  MessageWay longest;
  for (const auto& domains : who_.domains()) {
    for (const GpuGroup& domain : domains) {
      keep_longer(longest, phases_.add_ring(domain, true, times), passes * (who_.each() - 1));
    }
  }
  all.latency += longest.latency;
}

/// Rings (or chains) over the k-th members of all domains.
void HierarchicalSchedule::rail_rings(double passes, bool closed, std::uint32_t times,
                                      MessageWay& all) {
  MessageWay longest;
  for (const auto& domains : who_.domains()) {
    for (std::uint32_t k = 0; k < who_.each(); ++k) {
      keep_longer(longest, phases_.add_ring(CollectiveGroups::rail(domains, k), closed, times),
                  passes * (who_.spans() - 1));
    }
  }
  all.far += longest.far;
  all.latency += longest.latency;
}

/// While one chunk is on the rails, those before and after it are inside. A flow is what a rail's
/// edge carries, in parts of which an edge inside carries a whole number, as nearly as with a few.
void HierarchicalSchedule::overlapped_rings(double passes) {
  constexpr std::uint32_t kMostParts = 16;
  const double ratio =
      (who_.each() - 1.0) * who_.spans() / (who_.spans() - 1.0);  // inside, of what rails carry
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
  phases_.close(passes * (who_.spans() - 1) / who_.spans() / who_.each() / parts,
                passes * (who_.each() - 1 + who_.spans() - 1), all);
}

/// Scattered in the root's domain, along the rails, and gathered in every domain, chunk by chunk.
void HierarchicalSchedule::broadcast() {
  MessageWay all;
  for (const auto& domains : who_.domains()) {
    const GpuGroup& first = domains.front();
    for (const GpuId to : first) phases_.flows().add(first.front(), to);
    keep_longer(all, phases_.way(first.front(), first.back()));
  }
  inner_rings(1, who_.each() - 1, all);
  rail_rings(1, false, 1, all);
  phases_.close(1.0 / who_.each(), 1 + (who_.each() - 1) + (who_.spans() - 1), all);
}

bool HierarchicalSchedule::lay_out(CollectiveKind kind) {
  if (!who_.even() || who_.each() < 2 || who_.spans() < 2) return false;
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

/// To the member of the own domain that stands where the destination stands in its own, then along
/// the rail.
void HierarchicalSchedule::all_to_all() {
  for (const auto& domains : who_.domains()) {
    for (const GpuGroup& domain : domains) phases_.flows().add_all_pairs(domain);
  }
  phases_.close(1.0 / who_.each(), 1, {0, who_.cluster().shape().nvlink_latency.value});
  MessageWay all;
  for (const auto& domains : who_.domains()) {
    for (std::uint32_t k = 0; k < who_.each(); ++k) {
      const GpuGroup peers = CollectiveGroups::rail(domains, k);
      phases_.flows().add_all_pairs(peers);
      keep_longer(all, phases_.worst_way(peers));
    }
  }
  phases_.close(1.0 / who_.spans(), 1, all);
}

}  // namespace orrery::estimates

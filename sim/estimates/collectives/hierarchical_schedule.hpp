// Two-level collectives. One of the algorithms of sim/estimates/collectives/collective_scheduler;
// one thread.
#pragma once

#include <cstdint>

#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/phase_builder.hpp"

namespace orrery::estimates {

/// Schedule of two levels: NVLink inside domains and rails between domains, pipelined chunk by
/// chunk, so that both levels work at once.
///
/// For example, an all-reduce of 2 domains with 8 members is one phase of 2 x (7 + 1) rounds, in
/// which each rail carries (2 x 1 / 2) / 8 of the buffer.
class HierarchicalSchedule {
 public:
  /// Adds phases to `phases`. Both arguments must outlive this object.
  HierarchicalSchedule(const CollectiveGroups& who, PhaseBuilder& phases)
      : who_(who), phases_(phases) {}

  /// Adds the phases of the collective and returns true. Returns false, and adds nothing, for
  /// send-receive, and if the groups do not have at least two NVLink domains with equally many, at
  /// least two, members.
  bool lay_out(CollectiveKind kind);

 private:
  /// Adds a broadcast: scatter in the root's domain, chains along the rails, gather in every
  /// domain.
  void broadcast();
  /// Adds an all-to-all in two phases: inside each domain, then along each rail.
  void all_to_all();
  /// Adds rings inside domains and rings on rails as one pipelined phase.
  void overlapped_rings(double passes);
  /// Adds one ring per domain, `times` flows per edge; adds the latency of the rounds to `all`.
  void inner_rings(double passes, std::uint32_t times, MessageWay& all);
  /// Adds one ring per rail (a chain if not `closed`); adds far rounds and latency to `all`.
  void rail_rings(double passes, bool closed, std::uint32_t times, MessageWay& all);

  const CollectiveGroups& who_;
  PhaseBuilder& phases_;
};

}  // namespace orrery::estimates

// Executions of one collective while links of the cluster slow down, fail and return. Called by the
// model of traces for a lone collective with faults; one thread. Nanoseconds of the policy clock,
// bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/plan/hardware_state.hpp"
#include "sim/training/fault_plan.hpp"

namespace orrery::sim {

/// A collective that is executed again and again under faults. A phase progresses at the rate of
/// its slowest link, and at another rate from the instant at which a fault begins or ends. Over a
/// link that is down nothing passes; the transfer continues once the link is up, or once traffic
/// takes another path. Latencies do not change.
///
/// For example, a phase of 1 s whose slowest link has half of its rate from 0.5 s on takes 1.5 s.
class FaultedCollective {
 public:
  /// Prepares a collective of `bytes` bytes, by a schedule with its costs (price_protocols()). All
  /// arguments passed by reference must outlive this object.
  FaultedCollective(const Cluster& cluster, const estimates::CostProfile& profile,
                    const estimates::CollectiveSchedule& schedule, double bytes,
                    FaultPlan& faults);

  /// Executions with their durations.
  struct Course {
    Nanos ended = 0;
    std::vector<std::pair<Nanos, std::uint64_t>> durations;  ///< (duration, number of executions)
    std::uint64_t simulated = 0;  ///< executions during which a fault began or ended
  };
  /// Executes the collective `steps` times from `began` on, and marks the faults that executions
  /// ran under as felt. Throws bad_input if a link that the collective needs never returns.
  Course run(Step steps, Nanos began);

 private:
  /// Returns the seconds of a phase under `state`, without its latency and without links that are
  /// down.
  double phase_seconds(const estimates::CollectivePhase& phase,
                       const estimates::HardwareState& state) const;
  /// Returns the duration of an execution under an unchanging state; kNever if a link is down.
  Nanos whole_time(const estimates::HardwareState& state);
  /// Returns the end of a phase that begins at `at`.
  Nanos run_phase(const estimates::CollectivePhase& phase, Step step, Nanos at);
  /// Returns the first link of the phase that is down; nothing if all are up.
  std::optional<LinkId> lost_link(const estimates::CollectivePhase& phase,
                                  const estimates::HardwareState& state) const;

  const Cluster& cluster_;
  const estimates::CostProfile& profile_;
  const estimates::CollectiveSchedule& schedule_;
  const double bytes_;
  FaultPlan& faults_;
  std::map<estimates::HardwareState, Nanos> known_;  ///< whole_time() by state
};

}  // namespace orrery::sim

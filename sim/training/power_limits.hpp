// Limits of the cluster's power over time, as the compute clock that caps leave to the GPUs. Read
// by a training job when a step begins; a plain value. Nanoseconds of the policy clock.
#pragma once

#include <vector>

#include "core/units.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"
#include "traces/scenario/power_schedule.hpp"

namespace orrery::sim {

/// Limits of a power budget (PowerBudget in traces/scenario.proto). The lowest limit in effect
/// holds. All GPUs of the cluster have the same cap, so that the cluster stays within the limit
/// even if all compute products at once.
///
/// For example, a limit of 80% leaves nodes of 8 H100 with 2.8 kW for the host, 8.4 kW in all, a
/// cap of 490 W for each GPU, and their products 87% of the clock.
class PowerLimits {
 public:
  /// Constructs a budget without limits.
  PowerLimits() = default;
  /// Reads a budget; `cluster` may be null if the budget has no limit. Throws bad_input as
  /// PowerSchedule(), and for a limit that lasts for ever without leaving power to any GPU.
  PowerLimits(const PowerBudget& budget, const Cluster* cluster);

  /// Returns the share of the compute clock at `now`: 1 without a limit, 0 if jobs pause.
  double clock_at(Nanos now) const;
  /// Returns the first instant after `now` at which the clock may change; kNever if none follows.
  Nanos next_change(Nanos now) const;

 private:
  PowerSchedule schedule_;
  std::vector<double> clocks_;  ///< clock under each limit of the schedule
  double always_ = 1;           ///< clock at all times; below 1 only if the caps are flat
};

}  // namespace orrery::sim

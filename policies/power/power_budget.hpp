// Spending of a power budget that changes over time: limits of the GPUs' power by job, pauses, and
// the order of the jobs. Sets PowerCap. Called by drive(); one thread. Nanoseconds of the policy
// clock, watts.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/schema/names.hpp"
#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"
#include "traces/scenario/power_schedule.hpp"

namespace orrery {

/// Division of the power among the jobs (PowerBudgetParameters.spend).
enum class PowerDivision : std::uint8_t { even, priority, pause };
constexpr std::array<std::string_view, 3> names_of(PowerDivision) {
  return {"even", "priority", "pause"};
}

/// Policy that divides a power budget among the training jobs, so that the cluster draws at most
/// the limit in effect even if all GPUs compute products at once. GPUs without a job draw idle
/// power, GPUs of jobs whose power cannot be limited full power. For example, with 6.72 kW for
/// two jobs of 4 H100 each and hosts of 2.8 kW, `priority` gives the first job 700 W a GPU and the
/// second one 280 W, `even` 490 W to both.
class PowerBudgetPolicy : public Policy {
 public:
  /// Returns Configure and the setting PowerCap; no tick.
  Needs needs() const override;
  /// `parameters`: PowerBudgetParameters, or null for no limits. Throws an internal Error for
  /// another message type, and bad_input for impossible limits (PowerSchedule()) and for limits of
  /// GPUs whose idle power is unknown.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Decides a PowerCap for each placed job whose limit changes, when a job starts, stops, ends or
  /// loses ranks, and at each call without a step. Requests a call at the next begin or end of a
  /// limit, unless no job with a limit is running. Always rests.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;

 private:
  void divide_power(const Observation& seen, DecisionList& decisions) const;

  PowerSchedule limits_;
  PowerDivision division_ = PowerDivision::priority;
  double least_clock_ = 0;
};

}  // namespace orrery

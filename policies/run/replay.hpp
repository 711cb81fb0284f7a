// Replay of a log: calls the recorded policies again with the recorded observations and compares
// their decisions with the recorded decisions. Needs no simulator and no live run. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Result of a replay, with the first difference to the log.
struct ReplayResult {
  std::uint64_t calls = 0;            ///< replayed calls of observe()
  std::uint64_t decisions = 0;        ///< decisions of the replayed policies
  std::string decision_trace_sha256;  ///< hash of the replayed decisions and their outcomes
  std::string first_difference;       ///< text for people; empty: the replay equals the log
  /// instant of the call with the first difference, 0 for other needs; kNever: no call differs
  Nanos differs_at = kNever;
  /// False if the states of the policies were not compared, because the format of the log is older
  /// (log_format.hpp).
  bool states_compared = true;
};

/// Replays the log at `path` with the policies named in its header. `overrides` change their
/// parameters, for example "predictive-rebalance.gain_threshold=0.2". Stops at the first
/// difference: other needs, other decisions or wake-up times, another idle promise, a read of
/// telemetry that the recorded run did not read, another state of the policies after a call (not in
/// a log of an older format), an exception of a policy, or, at the end, other bytes than recorded.
/// Throws bad_input for a file that is not a log, is truncated or damaged, or has an unknown
/// format, for a log of a policy outside the registry or of a choice by forecasts (the header has
/// `choice`), and for an unknown policy or parameter or an invalid value in `overrides`; throws a
/// usage Error for an override that is not POLICY.PARAMETER=VALUE.
ReplayResult replay_log(const std::string& path, const std::vector<std::string>& overrides);
/// Replays the log at `path` with a policy of the caller, for example the policy that
/// run_in_worker() called when the log was recorded. Calls start() of the policy, without
/// parameters (null), whose exceptions leave this function. Stops as above; throws bad_input for a
/// file that is not a log, is truncated or damaged, or has an unknown format.
ReplayResult replay_log(const std::string& path, Policy& policy);

}  // namespace orrery

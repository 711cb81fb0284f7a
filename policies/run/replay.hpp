// Replay of a log through the policies that recorded it: pure, without a backend. Throws as
// documented; one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Result of a replay, with the first difference to the log.
struct ReplayResult {
  std::uint64_t calls = 0;
  std::uint64_t decisions = 0;
  std::string decision_trace_sha256;
  std::string first_difference;  ///< empty: identical
};

/// Feeds the log's observations, through drive(), to the policies named in its header (with
/// `overrides`, such as "predictive-rebalance.gain_threshold=0.2", applied to their parameters).
/// Stops at the first difference: other needs (another tick), another decision, a request for
/// telemetry that the recorded run did not read, another state of the policies after a call, or (at
/// the end) other bytes than recorded. Throws bad_input on a file that is no log, is truncated, or
/// has another format.
ReplayResult replay_log(const std::string& path, const std::vector<std::string>& overrides);
/// Replays the log with a policy of the caller, in the way in which run_in_worker() called it: for
/// runs of policies that no registry knows.
ReplayResult replay_log(const std::string& path, Policy& policy);

}  // namespace orrery

// The replay of a log through the policies that it was recorded with: pure, needs no backend.
// Throws as documented; one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

struct ReplayResult {
  std::uint64_t calls = 0;
  std::uint64_t decisions = 0;
  std::string decision_trace_sha256;
  std::string first_difference;  ///< empty: identical
};

/// Feeds the log's observations, through drive(), to the policies named in its header (with
/// `overrides`, such as "predictive-rebalance.gain_threshold=0.2", applied to their parameters).
/// Stops at the first difference: other needs (another tick), another decision, telemetry asked for
/// that was not read when it was recorded, another state of the policies after a call, or (at the
/// end) other bytes than were recorded.
/// Throws bad_input on a file that is no log, is cut short, or has another format.
ReplayResult replay_log(const std::string& path, const std::vector<std::string>& overrides);
/// The same with a policy of the caller's own, as run_in_worker() asked it: how runs of policies
/// that no registry knows are replayed.
ReplayResult replay_log(const std::string& path, Policy& policy);

}  // namespace orrery

// Loop that connects a policy and a backend. Called by workers (run/worker.cpp), by the replay of a
// log (run/replay.cpp), by replays and live runs of job logs (sim/replay/job_replay.cpp,
// cli/shared/live_jobs.cpp) and by tests. One thread.
#pragma once

#include <cstdint>

#include "policies/seam/backend.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Runs a policy in a backend until the run ends (Backend::next() returns nothing): starts the
/// policy without parameters (null: a PolicyStack has those of its members), compares its needs
/// with the backend's capabilities, begins the run, and then passes every observation to the policy
/// and its decisions to the backend. Sets context.backend. Call once for a policy and a backend;
/// blocks until the end. Returns the number of decisions of the run, those of an earlier process
/// included. Throws bad_input with the missing features if the backend cannot satisfy the needs,
/// bad_input if the policy decides or requests another call a thousand times in a row at one
/// instant (StandstillGuard). Exceptions of the policy and of the backend pass through.
std::uint64_t drive(Policy& policy, Backend& backend, Context& context);

/// Returns the random generator that a run with the seed `seed` passes to its policies. A replay
/// must use the same generator.
inline Rng policy_rng(std::uint64_t seed) { return Rng(seed).split_stream("policy"); }

}  // namespace orrery

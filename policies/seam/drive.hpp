// Loop that connects a policy and a backend.
#pragma once

#include <cstdint>

#include "policies/seam/backend.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Runs a policy in a backend until the run ends. Starts the policy, asks for its needs (they may
/// depend on its parameters), checks them and calls observe() for every observation. Returns the
/// number of decisions. Throws bad_input with the missing feature if the backend cannot satisfy the
/// needs.
std::uint64_t drive(Policy& policy, Backend& backend, Context& context);

/// Returns the generator that a run with this seed passes to its policies; a replay must use the
/// same generator.
inline Rng policy_rng(std::uint64_t seed) { return Rng(seed).split_stream("policy"); }

}  // namespace orrery

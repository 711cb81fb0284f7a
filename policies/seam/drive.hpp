// The one loop that joins a policy and a backend.
#pragma once

#include <cstdint>

#include "policies/seam/backend.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Starts the policy, asks for its needs (they may depend on its parameters), checks them (throws
/// bad_input naming what the backend lacks), calls observe() for every observation. Returns how
/// many decisions were taken.
std::uint64_t drive(Policy& policy, Backend& backend, Context& context);

/// The generator that a run with this seed hands to its policies; a replay must use the same.
inline Rng policy_rng(std::uint64_t seed) { return Rng(seed).split("policy"); }

}  // namespace orrery

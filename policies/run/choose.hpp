// Replacement of all policies of a scenario by a single policy, for comparisons of policies.
// Thread-safe.
#pragma once

#include <string>

#include "traces/scenario.pb.h"

namespace orrery {

/// Makes `name` the only policy of the scenario. The policy has the parameters of the scenario if
/// the scenario names it, otherwise its defaults. Throws a usage Error with the nearest name for an
/// unknown policy.
void choose_policy(Scenario& scenario, const std::string& name);

}  // namespace orrery

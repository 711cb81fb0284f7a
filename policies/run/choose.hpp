// Replacement of a scenario's policies by a single policy, for comparisons. Thread-safe.
#pragma once

#include <string>

#include "traces/scenario.pb.h"

namespace orrery {

/// Makes `name` the scenario's only policy: with its parameters in the scenario if the scenario
/// names it, else with its defaults. Throws a usage Error with the nearest name.
void choose_policy(Scenario& scenario, const std::string& name);

}  // namespace orrery

// One policy instead of a scenario's: how runs under several policies are compared. Thread-safe.
#pragma once

#include <string>

#include "traces/scenario.pb.h"

namespace orrery {

/// Leaves `name` as the scenario's only policy: with the parameters written for it where the
/// scenario names it, else with its defaults. Throws a usage Error with the nearest name.
void choose_policy(Scenario& scenario, const std::string& name);

}  // namespace orrery

// Policies by name in a scenario. Called by the bindings; GIL held or not.
#pragma once

#include <string>

#include "python/bindings/python_policy.hpp"
#include "traces/scenario.pb.h"

namespace orrery::python {

/// Returns the specification of a built-in policy: its parameters in the scenario, overlaid with
/// `values`.
/// Throws a usage Error with the nearest name.
PolicySpec policy_spec(const Scenario& scenario, const std::string& name,
                       const PolicyParameters& values);

}  // namespace orrery::python

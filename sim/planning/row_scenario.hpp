// Text of a scenario that a search has found, for `orrery simulate`. Called by `orrery plan` and
// `orrery layouts`. Pure functions.
#pragma once

#include <string>

#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Returns the scenario as YAML below a comment of one line, policies with their parameters.
std::string scenario_text(Scenario scenario, const std::string& comment);

}  // namespace orrery::sim

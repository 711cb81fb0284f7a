// What the program of a training job lets be done to it, by the fabric that carries it: the same
// rules where it runs and where that run is rehearsed. A model that nothing here trains (any but
// the built-in ones) is only simulated, and bound by none of them. Pure functions; thread-safe.
#pragma once

#include <string>

#include "policies/seam/policy.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Settings of the scenario's job that can be set while it runs.
Kinds<Setting> settable(const Scenario& scenario);

/// What stands against a decision on the scenario's job, whatever its state; empty: nothing.
std::string fabric_refusal(const Scenario& scenario, const Decision& decision);

/// What ranks do on a loss until somebody decides: as the scenario says, else `replace` where none
/// of the run's policies decides where a job stands. `applied`: decisions are carried out at all.
OnLoss loss_response(const Scenario& scenario, const Needs& needs, bool applied);

/// Gradients are summed in whole numbers, so that the sum has the same bits on any ranks.
bool reproducible_sums(const Scenario& scenario);

}  // namespace orrery

// Limits of training programs that the fabric imposes, the same for a run and its rehearsal. A
// model that live mode does not train (any except the built-in models) is only simulated and has no
// such limits. Pure functions; thread-safe.
#pragma once

#include <string>

#include "policies/seam/policy.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Returns the settings of the scenario's job that can change while the job runs.
Kinds<Setting> settable(const Scenario& scenario);

/// Returns the objection to a decision on the scenario's job, independent of the job's state; empty
/// if none exists.
std::string fabric_refusal(const Scenario& scenario, const Decision& decision);

/// Returns the reaction of ranks to a loss until a policy decides: the value in the scenario, else
/// `replace` if no policy of the run decides placements. `applied`: decisions are applied at all.
OnLoss loss_response(const Scenario& scenario, const Needs& needs, bool applied);

/// Returns true if gradients are summed in whole numbers, so that the sum has the same bits on any
/// ranks.
bool reproducible_sums(const Scenario& scenario);

}  // namespace orrery

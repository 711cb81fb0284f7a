// Sentences of a plan: assumptions with their sources, warnings, and the comparison of two rows.
// Called by sim/planning/plan. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "sim/planning/plan.hpp"

namespace orrery::sim {

/// Returns every assumption of the plan on this basis, each with its source or "given".
std::vector<std::string> assumptions_of(const PlanQuestion& question, const PlanBasis& basis);

/// Returns what the reader must know before signing: failures that cost nothing or are left out,
/// runs that never end, prices that are placeholders, a step price without measurements.
std::vector<std::string> warnings_of(const PlanQuestion& question, const PlanBasis& basis,
                                     const std::vector<PlannedRun>& rows);

/// Returns why `first` is before `second`: dates, costs, GPUs, goodput and parts of the step.
std::string comparison_of(const PlannedRun& first, const PlannedRun& second);

}  // namespace orrery::sim

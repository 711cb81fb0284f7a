// Inputs of the next step of a live run.
#pragma once

#include <cstdint>
#include <vector>

#include "live/control.pb.h"
#include "live/run/run_parts.hpp"
#include "live/run/step_parts.hpp"

namespace orrery::live {

/// Returns the plan of the current step for `members`, the seats of the epoch in ascending order:
/// shares, settings of the job, and the checkpoint after the step, which replaces the checkpoint of
/// an earlier plan (RunCheckpoints::plan()). Call only once the job is submitted. Throws an
/// internal Error if the shares of the members do not cover every micro-batch of the step.
StepPlan plan_step(RunParts& run, const StepParts& parts,
                   const std::vector<std::uint32_t>& members);

/// Sets the present state of the hardware of all ranks that work or are awaited, which the ranks
/// receive with the next directives. Call only once the job is submitted.
void set_hardware(const RunParts& run, StepParts& parts);

}  // namespace orrery::live

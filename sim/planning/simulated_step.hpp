// Step of a planned row in the simulator, where its flows share links, as a process of its own.
// Called by sim/planning/plan. Thread-safe. Seconds.
#pragma once

#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Returns the duration of one step of the scenario without failures, as `orrery simulate` has it.
/// Starts orrery-sim beside the running program, or in bin/ beside the Python module, and blocks
/// until the step is simulated. Throws as run_in_worker().
double simulated_step(Scenario scenario);

}  // namespace orrery::sim

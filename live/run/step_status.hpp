// Status of a live run's steps and ranks for the operator.
#pragma once

#include "live/run/run_parts.hpp"
#include "live/run/step_parts.hpp"

namespace orrery::live {

/// Writes fields into the status that the run's state lacks: the duration of the newest step, if
/// this process has committed one, the phases over, stopping and waiting (the job has no GPUs),
/// where one applies, and, while the world holds the job, the number of missing ranks (0 once the
/// run is over), the newest durable checkpoint if any, the settings, announced removals, slower
/// parts, and one entry for each rank: working, spare, testing (PartTests), fenced, joining or
/// lost; none for a GPU that the job does not use and that has no process. Appends to lists.
/// `over`: no further step will be trained.
void fill_status(const RunParts& run, const StepParts& parts, bool over, RunStatus& status);

}  // namespace orrery::live

// Commits of the steps of a training job: the report of committed steps to the policies, the
// checkpoint that a commit starts, and the end of the job. One thread. Nanoseconds of the policy
// clock.
#pragma once

#include "policies/seam/event.hpp"
#include "sim/training/job_in_world.hpp"
#include "sim/training/training_state.hpp"

namespace orrery::sim {

/// Counts `steps` steps of total `duration`, which end now, as committed, and commits the job up to
/// them: marks losses as resumed, records the progress, and, with `tell` or after the last step of
/// the job, tells the policies (tell_committed()), settles the deferred decisions, and begins a
/// checkpoint that is due, which stalls the job. Ends the job as completed after its last step.
/// Call after TrainingMetrics::commit_steps(), while no step is in progress.
void commit_steps(const JobInWorld& here, TrainingState& state, std::uint64_t steps,
                  Nanos duration, bool tell);
/// Emits one StepsDone for all committed steps that have not been reported yet; nothing if no such
/// step exists. Steps of a stretch in progress are not committed.
void tell_committed(const JobInWorld& here, TrainingState& state);
/// Rolls the job back: `step`, at most the current step, becomes the next step, and the steps from
/// `step` on no longer count as committed, their work is lost (TrainingMetrics::roll_back). Call
/// after tell_committed(), while no step is in progress.
void roll_back_to(TrainingState& state, Step step);
/// Emits the reports of parts and the end of a checkpoint that are due now, and renews the warm
/// spares after a change of parts.
void emit_due_events(const JobInWorld& here, TrainingState& state);
/// Ends the job: emits the due events and JobDone, leaves contention, and rejects the deferred
/// decisions on the job.
void end_job(const JobInWorld& here, TrainingState& state, Ending how);

}  // namespace orrery::sim

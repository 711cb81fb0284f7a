// Assignments of a training job: a decision gives the job GPUs, which it moves to between two steps
// once new processes are ready, or takes them away. One thread. Nanoseconds of the policy clock.
#pragma once

#include "sim/training/job_in_world.hpp"
#include "sim/training/training_state.hpp"

namespace orrery::sim {

/// Accepts an assignment, which change_between_steps() activates; replaces a pending one. The
/// assignment is ready at ready_time(). Drops the current step if working ranks are given up. A
/// restart of a running job also reports the committed steps, drops the checkpoint in flight, and
/// emits JobHeld. Between two steps, books the wait as recovery once the job has started. Call with
/// an accepted decision that is no release, and with no stretch in progress.
void assign_gpus(const JobInWorld& here, TrainingState& state, const Assign& assign);
/// Returns the instant at which an assignment that is decided now is ready: after the
/// restart time of the newest losses, else of the scenario (state from a checkpoint, or none for a
/// placed job); for a placed job that takes
/// other GPUs after the warm-join time, if a warm spare waits on each new GPU, or else the
/// replacement time, less the detection time once any loss is recorded; at once in all other cases.
Nanos ready_time(const Survival& survival, const TrainingState& state, const JobInfo& job,
                 const Assign& assign);
/// Takes the job off its GPUs, to wait for another assignment. Drops the current step, the
/// checkpoint in flight, a pending assignment and undetected losses, and rolls back to the newest
/// checkpoint. Reports the committed steps, emits JobStopped, rejects the deferred decisions on the
/// job, and leaves contention. Call for a placed job, with no stretch in progress.
void release_gpus(const JobInWorld& here, TrainingState& state);

/// Activates the pending assignment if it is ready and the job is not stalled; call only between
/// two steps. Activation reports the committed steps, rolls back to the newest checkpoint if the
/// assignment takes the state of a checkpoint, to step 0 if it gives a job with GPUs no state,
/// emits JobStarted, expires the deferred settings, fits the job to the new GPUs, and stalls a job
/// that had GPUs for the regroup time and, if its ranks take the state for replicas of other sizes
/// from each other, for reshard_time(); a job with GPUs that does not keep the state of its ranks
/// also drops the checkpoint in flight. If a GPU of the assignment is lost, makes the assignment
/// ready at the next change of the cluster, or, if none follows or the job is on hold, drops the
/// assignment and emits JobHeld for a job with GPUs.
void change_between_steps(const JobInWorld& here, TrainingState& state);

}  // namespace orrery::sim

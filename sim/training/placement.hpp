// Placement of a training job and its stalls: the first placement, warm spares, the fit to the
// working replicas, and the instant from which steps may begin. One thread. Nanoseconds of the
// policy clock.
#pragma once

#include <optional>

#include "sim/training/job_in_world.hpp"
#include "sim/training/training_state.hpp"

namespace orrery::sim {

/// Returns the state of a job that is not submitted, with the fit to its expected placement: the
/// scenario's layout on the GPUs from `setup.arrival.first_gpu` on. Throws as FittedJob and
/// FaultPlan.
TrainingState initial_state(const JobInWorld& here);
/// Returns the state of a job that is not submitted, with the fit to the placement `first`.
/// Discards the fits of `here`. Throws as initial_state().
TrainingState state_at(const JobInWorld& here, const Standing& first);

/// Places the job on its first GPUs, begins its accounting and emits `start`, which the world must
/// accept (World::objection); if GPUs or layout differ from the expected ones, discards all fits
/// and numbers the GPUs anew. Call once.
void place_initially(const JobInWorld& here, TrainingState& state, const JobStarted& start);
/// Lets a process wait on each of the first free and healthy GPUs that stay, `survival.warm` in
/// all. A process that has to be started waits from `ready` on.
void renew_spares(const JobInWorld& here, TrainingState& state, Nanos ready);
/// Fits the job to its working replicas and leaves the conditions of the earlier fit; does nothing
/// if no replica works.
void refit_job(const JobInWorld& here, TrainingState& state);
/// Removes the job from contention and forgets the conditions of its steps. Call when the job moves
/// to another fit or leaves its GPUs.
void leave_step(const JobInWorld& here, TrainingState& state);
/// Numbers GPUs that the job has not used before, so that faults reach them.
void number_gpus(TrainingState& state, const GpuRuns& gpus);

/// Forgets the pending assignment if the world has made it void (is_assignment_void()).
void forget_void_assignment(const JobInWorld& here, TrainingState& state);

/// Stalls the job until `at`, for `use`: no step begins before. Books the time up to now. An
/// earlier stall that ends later stays.
void stall_until(TrainingState& state, Nanos at, GpuUse use);

/// Ends a pause by a limit of power now, so that the limits are read again before the next step.
/// Nothing if the job does not pause; another stall that lasts longer stays.
void end_pause(TrainingState& state);
/// Returns true if the job is submitted and not over, no step is in progress, the phase of the job
/// is `running` and the job neither stalls nor pauses, so that the next step can begin.
bool can_begin_step(const JobInWorld& here, const TrainingState& state);
/// Returns true if the job is placed and waits between two steps: it is stalled, an assignment is
/// pending, or a loss is undetected. Such a job loses ranks as one that works.
bool is_stalled_job(const JobInWorld& here, const TrainingState& state);
/// Returns the last instant of failures and repairs that a job which does not work waits for
/// (sim::end_of_patience()).
Nanos end_of_patience(const TrainingState& state);
/// Returns the next instant with a change of the placement: the end of a stall, a ready assignment,
/// the suspicion or detection of a loss, or a begin or end of a fault while the job is stalled
/// between steps or on hold; kNever if none follows. During a step, ends of stalls and assignments
/// that are ready already do not count.
Nanos next_placement_change(const JobInWorld& here, const TrainingState& state);

}  // namespace orrery::sim

// Losses of a training job from the fault to the event: a fault kills ranks, within a step or
// between two steps, the remaining ranks detect the loss later, and then the world and the policies
// are told. One thread. Nanoseconds of the policy clock.
#pragma once

#include "sim/training/job_in_world.hpp"
#include "sim/training/training_state.hpp"

namespace orrery::sim {

/// Applies the faults of this instant between two steps: schedules reports of parts that are lost
/// or return, and, if the job is placed and waits, records lost ranks, which stall the job until
/// their detection and the regroup time after it, spoil the checkpoint in flight, and take the job
/// out of contention. A process of a restart that is lost on healthy hardware delays the restart
/// instead. Emits nothing. Does nothing during a step, before the start and after the end of the
/// job.
void apply_faults_between_steps(const JobInWorld& here, TrainingState& state);
/// Delays the pending assignment by the kills that struck its starting processes by now: each of
/// them is started again after the detection and replacement times of its fault. Does nothing
/// without a pending assignment.
void delay_replacement(const JobInWorld& here, TrainingState& state);
/// Handles a step that was cut short and that is not open any more: counts its micro-batches as
/// recomputed, and records the lost ranks (as apply_faults_between_steps()), or, if a link broke
/// the step, stalls the job until the link is up again. If the link never is, returns false and
/// only records the loss of the whole job: the caller must end the job.
bool survive_cut_step(const JobInWorld& here, TrainingState& state,
                      const estimates::PlayedStep& played);
/// Emits RanksSuspected if suspicion_of() says so. For losses that are detected by now, emits
/// RanksLost, expires the deferred settings, fails the checkpoint in flight, makes the job's next
/// assignment in the world, if the loss or an earlier decision has set one, ready the replacement
/// time after the first loss, unless an assignment is pending here, and then emits JobHeld or moves
/// the job to the fit of the remaining ranks. Does nothing if nothing is suspected or detected, or
/// after the end of the job.
void notice_losses(const JobInWorld& here, TrainingState& state);
/// Decides about the stalled ranks that are heard again by now (returns_of()), once all losses are
/// detected: those that return work again after survival.warm_join, at the begin of a step; those
/// whose places are taken are forgotten.
void review_heard_ranks(const JobInWorld& here, TrainingState& state);
/// Stalls the job, which is_input_cut(), until the next fault begins or ends; if none does by
/// end_of_patience(), ends the job as failed. Call while no step is in progress.
void wait_for_storage(const JobInWorld& here, TrainingState& state);
/// Ends the checkpoint in flight, if any, as not durable, and emits its event.
void fail_saving(const JobInWorld& here, TrainingState& state);
/// Returns true if an undetected loss exists, and the job has committed no new step for so long
/// (end_of_patience()) that it will never end; false after the end of the job. Ranks are then lost
/// faster than they recover.
bool is_given_up(const TrainingState& state);

}  // namespace orrery::sim

// Steps of a training job along the policy clock: the current step, and stretches of equal steps
// that are advanced at once while no policy observes them and nothing can differ. A stretch ends
// early when an event happens elsewhere. For each step: enter_new_step(), begin_steps(), then
// close_step() at step_end() for a single step, or settle_steps() for a stretch. One thread.
// Nanoseconds of the policy clock.
#pragma once

#include <vector>

#include "sim/training/job_in_world.hpp"
#include "sim/training/training_state.hpp"
#include "sim/world/job_model.hpp"

namespace orrery::sim {

/// Returns true if the policies have seen a whole step under the current conditions, or read
/// neither telemetry nor step times.
inline bool is_unchanged(const TrainingState& state, const JobModel::Watch& watch) {
  return state.watched || !(watch.reads || watch.step_times);
}
/// Returns true if the policies' promise covers the next steps: they rest, is_unchanged() is true,
/// the run is not in full detail, and no noise varies step times that the policies read.
bool is_resting(const TrainingSetup& setup, const TrainingState& state,
                const JobModel::Watch& watch);

/// Fixes the conditions of the next step (enter_step()), and schedules reports of parts that its
/// faults change. If the conditions differ from those of the last step, policies have not seen a
/// whole step under them (is_unchanged()). Call before begin_steps(), while no step is in progress
/// and while the job runs on the GPUs of the current fit, which is not checked: with another fit
/// the step is undefined.
void enter_new_step(const JobInWorld& here, TrainingState& state);
/// Begins the next step, or a stretch if is_resting(), a step was committed after every loss, and
/// at least one step is free of changes, losses, and requested checkpoints; call after
/// enter_new_step(), while no step is in progress. Simulates steps that are not cached, and books
/// all time up to now (GpuTimeLedger::interrupt_at). With a single step, a requested checkpoint
/// becomes due at its end, and reports and stalls by the faults of its duration are scheduled.
/// Steps with noise that no event interrupts are committed at once instead of in a stretch, under
/// the same conditions and if `watch.alone`: `now` is then the end of the last one, and no step is
/// in progress. Throws bad_input if the policy clock would overflow, or if the engine lacks room
/// for the step.
void begin_steps(const JobInWorld& here, TrainingState& state, const JobModel::Watch& watch);
/// Enters and begins the current step as of `began`, as enter_new_step() and begin_steps() of a
/// single step, unless the step would be over by now: then no step is in progress. Drops the fault
/// reports due by now, which a log has shown. Call as enter_new_step(). Does not change `now`.
/// Throws as begin_steps().
void restart_current_step(const JobInWorld& here, TrainingState& state, Nanos began);
/// Simulates the step that was open, and had begun at `began`, again, by the fixed conditions,
/// which must be applied (apply_conditions()): the step is open then. Changes nothing else. Throws
/// as begin_steps().
void reopen_step(const JobInWorld& here, TrainingState& state, Nanos began);
/// Ends the stretch in progress at `at`, from `now` to step_end(): commits the steps that ended by
/// `at`, and continues a step within as a single step of the same duration. Sets `now` to `at`.
/// Tells the policies only if the last step ended at `at`; with `step_times` in the watch of
/// begin_steps(), reports the ended steps before the step within continues. Does nothing without a
/// stretch.
void settle_steps(const JobInWorld& here, TrainingState& state, Nanos at);
/// Ends the open step, whose end is now: commits the step, after a stall for lost packets; or, if a
/// fault cut the step short, books its GPU time as lost work, and handles the loss
/// (survive_cut_step()), which may end the job as failed: the step number stays.
void close_step(const JobInWorld& here, TrainingState& state, const JobModel::Watch& watch);
/// Drops the open step: books its GPU time up to now as lost work and its completed micro-batches
/// as recomputed. The step number stays, so that the step is repeated. Does nothing without an open
/// step; settle a stretch first.
void abandon_step(TrainingState& state);

/// Appends the sample of the newest committed step (ExchangeMeter); nothing if the current fit has
/// one replica, before the first commit, or if the exchange was hidden completely.
void append_exchange(const TrainingState& state, std::vector<CollectiveSample>& out);

}  // namespace orrery::sim

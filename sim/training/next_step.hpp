// Next step of a training job: its duration under the current conditions, beside the jobs that
// share its links, and with changes during the step. The order for each step: enter_step(),
// Contention::next_step(), update_contention(), then undisturbed_step() or step_with_changes(). One
// thread. Nanoseconds of the policy clock.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/training/job_in_world.hpp"
#include "sim/training/training_state.hpp"

namespace orrery::sim {

/// Returns the share of the compute clock for a step that begins now: the lower one of those that
/// the scenario's limits of power and the job's PowerCap leave; 0 if the job pauses.
double clock_of(const JobInWorld& here, const TrainingState& state);
/// Enters the current step and fixes its conditions (TrainingState::conditions), by the current
/// fit, the faults, the limits of power, and the job's shares and settings in the world. Marks the
/// faults in effect as
/// felt. Returns true if the conditions differ from the previous ones, or no step was entered: then
/// takes effect as apply_conditions(). Otherwise changes nothing else. Call while no step is in
/// progress and the job runs on the GPUs of the current fit, which is not checked.
bool enter_step(const JobInWorld& here, TrainingState& state);
/// Returns the state of the job's hardware during the current step at `instant`, at the compute
/// clock of the fixed conditions. Call after enter_step().
estimates::HardwareState hardware_at(const TrainingState& state, Nanos instant);
/// Sets the collectives, codecs and input of the fixed conditions in the stepper, and enters
/// contention with the work.
void apply_conditions(const JobInWorld& here, const TrainingState& state);
/// Updates the group of jobs that share links in the conditions. Returns true if the group or its
/// work has changed since the last call. Call after enter_step(), when all other jobs of this
/// instant have entered contention.
bool update_contention(const JobInWorld& here, TrainingState& state);

/// Returns the current step, begun now, without changes during it: beside the jobs of its group, or
/// alone. May simulate steps, also of the other jobs of the group. Call after enter_step(). Throws
/// bad_input if the engine lacks room for the steps.
std::shared_ptr<const estimates::SimulatedStep> undisturbed_step(const JobInWorld& here,
                                                                 const TrainingState& state);
/// Returns the current step, begun now, with the changes during it, cut short at the first death of
/// a working rank, or by a link that is down; equal to undisturbed_step() if nothing changes.
/// `stretch`: see PlayedStep. Call as undisturbed_step(). Marks faults of ranks that do not work as
/// spent (next_losses()), no other ones. Throws bad_input as length_of() and undisturbed_step().
std::shared_ptr<const estimates::SimulatedStep> step_with_changes(
    const JobInWorld& here, TrainingState& state, const std::vector<double>& stretch);
/// Returns the step time in seconds with the best shares at the current speeds; nothing if no
/// conditions are fixed, the scenario gives no micro-batch time, or the job has several stages.
std::optional<double> ideal_step_time(const TrainingSetup& setup, const TrainingState& state);

/// Returns the duration of `what`, run as `step` from `now` on. `stretch`: see PlayedStep; ignored
/// if the step is cut short. Throws bad_input if the step would end after more than 285 simulated
/// years, where the policy clock overflows.
Nanos length_of(const estimates::SimulatedStep& what, Step step, Nanos now,
                const std::vector<double>& stretch);

}  // namespace orrery::sim

// Traffic of a simulated training job with the file system that all nodes share (cluster.storage):
// the checkpoint in flight and the reads of the training data (storage_rates). Rates are computed
// anew at events: begin and end of a checkpoint, begin of a step, a fault of the storage. One
// thread. Nanoseconds of the policy clock.
//
// Limits: a step in progress keeps its duration, also when a fault of the storage begins or ends;
// all ranks advance at the rate of the slowest one of the same kind; data that were read ahead
// before a checkpoint begins do not count.
#pragma once

#include "sim/training/job_in_world.hpp"
#include "sim/training/training_state.hpp"

namespace orrery::sim {

/// Sets StepConditions::read and write_ends of the step that begins now with the input and the
/// shares of `step`; leaves both without `job.input.stored`, and if is_input_cut(). A read takes
/// `job.input.read`, or longer if the storage has no room for the rate at which the processes of a
/// rank read, beside a checkpoint in flight; if that ends before the data of the step are read, the
/// mean over the step, within 0.2%.
void set_reads(const JobInWorld& here, const TrainingState& state, StepConditions& step);
/// Returns true if the job reads its data from storage that accepts nothing now, so that no step
/// can begin.
bool is_input_cut(const JobInWorld& here, const TrainingState& state);
/// Sets the rate of the checkpoint in flight from now on, beside the reads of steps that take
/// `step_length` each, or without reads if that is 0: the mean over a step, or the rate beside
/// active readers if StepConditions::write_ends. Does nothing without a checkpoint of
/// `checkpoints.bytes` in flight.
void renew_write_rate(const JobInWorld& here, TrainingState& state, Nanos step_length);
/// Returns the next instant at which a fault may change the rate of the checkpoint in flight;
/// kNever if none does, or without such a checkpoint.
Nanos next_rate_change(const TrainingState& state);

}  // namespace orrery::sim

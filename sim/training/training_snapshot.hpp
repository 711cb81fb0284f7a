// State of a training job from outside of its run: from bytes, or from a log. A copy of
// TrainingState is a fork within the process; the bytes are the same state for another process, and
// two states are equal if their bytes are. The world (jobs, cluster, waiting decisions) is part of
// neither. One thread.
//
// Limits of the bytes: a snapshot is taken while no stretch is in progress (settle_steps()). Steps
// are simulated again, the open one too, and may differ in the last bits of their seconds, because
// the clock of an engine has advanced differently. Telemetry of the time before the snapshot is
// missing, so that samples delayed by the scenario's staleness show earlier steps only after that
// time. The number of simulated steps counts from the snapshot on. reseed_noise() before the
// snapshot must be repeated. Runs from a log and futures do not use the bytes: a log has no state
// of the job, and a future is a fork of the process.
#pragma once

#include <string>
#include <string_view>

#include "policies/record/past.hpp"
#include "sim/training/job_in_world.hpp"
#include "sim/training/training_state.hpp"

namespace orrery::sim {

/// Returns the state as bytes; equal states give equal bytes. Throws an internal Error during a
/// stretch.
std::string write_state(const TrainingState& state);
/// Returns the state that write_state() wrote, for a job with an equal setup, and enters contention
/// as the written job had. The world must have the state of the moment of the writing. Discards the
/// fits of `here`. Throws bad_input for bytes of another version, an internal Error for incomplete
/// bytes, and as FittedJob.
TrainingState read_state(const JobInWorld& here, std::string_view bytes);

/// Returns the state of a job at the end of the log `past`, all of whose observations must have
/// been shown: submitted, with the placement in the world, at the job's step, which is repeated
/// from its begin if it was in progress, and enters contention as that step. `initial`: the job's
/// initial_state(), whose fits are those of `here`. The world must have the state at the end of
/// the log. A pending assignment of the world is ready after the scenario's replacement time. GPUs
/// that the job did not have at its begin get numbers with its next assignment: until then, faults
/// of them kill no rank. A job that has ended in the log, or that the log does not submit, is over.
/// Throws as begin_steps().
TrainingState state_from_log(const JobInWorld& here, TrainingState initial, const Past& past);

}  // namespace orrery::sim

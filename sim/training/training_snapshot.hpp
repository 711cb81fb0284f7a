// Snapshots of a training job: its state as bytes. A copy of TrainingState is a fork within the
// process; the bytes are the same state for another process, and two states are equal if their
// bytes are. The world (jobs, cluster, waiting decisions) is not part of it. One thread.
//
// Limits: a snapshot is taken while no stretch is in progress (settle_steps()). Steps are simulated
// again, the open one too, and may differ in the last bits of their seconds, because the clock of
// an engine has advanced differently. Telemetry of the time before the snapshot is missing, so that
// samples delayed by the scenario's staleness show earlier steps only after that time. The number
// of simulated steps counts from the snapshot on. reseed_noise() before the snapshot must be
// repeated.
#pragma once

#include <string>
#include <string_view>

#include "sim/training/job_in_world.hpp"
#include "sim/training/training_state.hpp"

namespace orrery::sim {

/// Returns the state as bytes; equal states give equal bytes. Throws an internal Error during a
/// stretch.
std::string write_state(const TrainingState& state);
/// Returns the state that write_state() wrote, for a job with an equal setup, and enters contention
/// as the written job had. The world must have the state of the moment of the writing. Discards the
/// fits of `here`. Throws an internal Error for incomplete bytes or bytes of another version, and
/// as FittedJob.
TrainingState read_state(const JobInWorld& here, std::string_view bytes);

}  // namespace orrery::sim

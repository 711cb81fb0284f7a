// Construction of simulated worlds from scenarios, with one engine. Called by orrery-sim, once for
// each process; one thread.
#pragma once

#include <memory>

#include "policies/run/worker.hpp"
#include "topologies/cluster.hpp"
#include "traces/run.pb.h"

namespace orrery::sim {

/// Returns the world of a request. Throws as TrainingRun, TraceModel, RecordedJobs and
/// run_conditions(): bad_input if a job does not fit the cluster or the memory of its GPUs, or if a
/// fault names a part that the cluster lacks; a usage Error for a timeline of an execution trace.
/// Throws bad_input also if a log or a trace cannot be read, or if recorded jobs of a scenario have
/// outages or failures. Only the scenario's `job` reports to `progress`, which is copied, not those
/// of `jobs`. `cluster` must outlive the world. The world throws bad_input later if jobs grow
/// beyond the engine's room. Call once in a process, which can have only one engine.
std::unique_ptr<RunBackend> simulated_world(const RunRequest& request, const Cluster& cluster,
                                            const ProgressSink& progress);

}  // namespace orrery::sim

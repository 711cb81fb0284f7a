// Construction of simulated worlds from scenarios, with one engine. Called by orrery-sim, once for
// each process; one thread.
#pragma once

#include <memory>

#include "policies/run/worker.hpp"
#include "topologies/cluster.hpp"
#include "traces/run.pb.h"

namespace orrery::sim {

/// Returns the world of a request. Throws bad_input if a job does not fit the cluster or the memory
/// of its GPUs, a trace cannot be read, or recorded jobs of a scenario have outages or failures; a
/// usage Error for a timeline of an execution trace; and as SimTimeline for other timelines.
/// Only the scenario's first job reports to `progress`, which is copied. `cluster` must outlive the
/// world. The world throws bad_input later if jobs grow beyond the engine's room.
std::unique_ptr<RunBackend> simulated_world(const RunRequest& request, const Cluster& cluster,
                                            const ProgressSink& progress);

}  // namespace orrery::sim

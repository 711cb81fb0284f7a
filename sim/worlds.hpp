// Construction of simulated worlds from scenarios, with one engine. Called by orrery-sim, once for
// each process; one thread.
#pragma once

#include <memory>

#include "policies/run/worker.hpp"
#include "topologies/cluster.hpp"
#include "traces/run.pb.h"

namespace orrery::sim {

/// Returns the world of a request. Throws bad_input if a job does not fit the cluster or the memory
/// of its GPUs, or a trace cannot be read. `cluster` must outlive the world.
std::unique_ptr<RunBackend> simulated_world(const RunRequest& request, const Cluster& cluster,
                                            const ProgressSink& progress);

}  // namespace orrery::sim

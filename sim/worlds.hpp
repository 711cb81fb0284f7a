// Simulated worlds as scenarios describe them: what runs in them, on one engine. Made by
// orrery-sim, one per process; one thread.
#pragma once

#include <memory>

#include "policies/run/worker.hpp"
#include "topologies/cluster.hpp"
#include "traces/run.pb.h"

namespace orrery::sim {

/// Throws bad_input where a job does not fit the cluster or the memory of its GPUs, or a trace
/// cannot be read. `cluster` outlives the world.
std::unique_ptr<RunBackend> simulated_world(const RunRequest& request, const Cluster& cluster,
                                            const ProgressSink& progress);

}  // namespace orrery::sim

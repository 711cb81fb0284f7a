// Checks of a training job before its simulation: number of GPUs, and memory of each GPU. Called by
// training runs. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "policies/seam/job.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"
#include "traces/workload/step_graph.hpp"

namespace orrery::sim {

/// Returns the GPU of each rank: the cluster's GPUs in order, from the GPU `first` on. Throws
/// bad_input if the cluster has too few GPUs from `first` on.
std::vector<GpuId> place_in_order(const StepGraph& graph, const Cluster& cluster,
                                  std::uint32_t first = 0);

/// Returns a message about the first pipeline stage that does not fit into the memory of a GPU,
/// with one line for each use of memory; empty if all stages fit. The check assumes even shares of
/// the micro-batches.
std::string memory_lack(const StepGraph& graph, const Cluster& cluster);
/// Returns the reason why the job of the scenario has no memory for a layout whose replicas have
/// other sizes than those of the scenario: the first line of memory_lack(). Empty if the job fits,
/// for replicas of the scenario's sizes, which are checked before the run, and with run.memory:
/// warn. The layout must be possible (layout_objection()).
std::string layout_refusal(const Scenario& scenario, const Cluster& cluster,
                           const ParallelLayout& layout);
/// Throws bad_input with the message of memory_lack() if a stage does not fit.
void check_memory(const StepGraph& graph, const Cluster& cluster);

}  // namespace orrery::sim

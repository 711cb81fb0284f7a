// Checks of a training job before its simulation: number of GPUs, and memory of each GPU. Called by
// training runs. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "topologies/cluster.hpp"
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
/// Throws bad_input with the message of memory_lack() if a stage does not fit.
void check_memory(const StepGraph& graph, const Cluster& cluster);

}  // namespace orrery::sim

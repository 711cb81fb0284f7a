// Checks before a simulation: placement on the cluster, and memory of the GPUs. Called by the
// simulator's backend. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "topologies/cluster.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::sim {

/// Returns the GPU of each rank: the cluster's GPUs in order from `first` on. Throws bad_input if
/// there are too few.
std::vector<GpuId> place_in_order(const StepGraph& graph, const Cluster& cluster,
                                  std::uint32_t first = 0);

/// Returns the memory uses of the first stage that does not fit into a GPU; empty if all stages
/// fit.
std::string memory_lack(const StepGraph& graph, const Cluster& cluster);
/// Throws bad_input with the result of memory_lack(), unless it is empty.
void check_memory(const StepGraph& graph, const Cluster& cluster);

}  // namespace orrery::sim

// What is looked at before a job is simulated: whether it fits the cluster and the memory of its
// GPUs. Called by the simulator's backend. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.hpp"
#include "topologies/cluster.hpp"
#include "traces/step_graph.hpp"

namespace orrery {

/// The GPU of each rank: the cluster's in order from `first` on. Throws bad_input if there are too
/// few.
std::vector<GpuId> place_in_order(const StepGraph& graph, const Cluster& cluster,
                                  std::uint32_t first = 0);

/// Throws bad_input, with what takes how much, unless each stage fits the memory of a GPU.
void check_memory(const StepGraph& graph, const Cluster& cluster);

}  // namespace orrery

// What is looked at before a job is simulated: whether it fits the cluster and the memory of its
// GPUs. Called by the simulator's backend. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "topologies/cluster.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::sim {

/// The GPU of each rank: the cluster's in order from `first` on. Throws bad_input if there are too
/// few.
std::vector<GpuId> place_in_order(const StepGraph& graph, const Cluster& cluster,
                                  std::uint32_t first = 0);

/// What takes how much on the first stage that does not fit the memory of a GPU; empty: all do.
std::string memory_lack(const StepGraph& graph, const Cluster& cluster);
/// Throws bad_input with that.
void check_memory(const StepGraph& graph, const Cluster& cluster);

}  // namespace orrery::sim

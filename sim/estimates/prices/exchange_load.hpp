// Time by which exchanges of gradients and parameters lengthen the computation beside them: the
// kernels of a collective take processors and memory bandwidth from those of the model. Used by the
// stepper. Pure functions; thread-safe.
#pragma once

#include <vector>

#include "core/units.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Returns the seconds that the exchanges of one step take alone on a rank of `stage`, without
/// latencies: the bytes of a ring over the rate of its slowest edge. For example, 8e9 parameters in
/// 16 bits, whose gradients are scattered and gathered among 64 GPUs on nodes of eight with 50 GB/s
/// each: 2 x 16e9 x 63/64 / (8 x 50e9) = 0.079 s. 0 if the job overlaps nothing.
Seconds exchange_beside(const StepGraph& graph, std::uint32_t stage, const Cluster& cluster,
                        const CostProfile& profile);

/// Returns the seconds by which exchanges lengthen the computation that overlaps them, of the stage
/// with the largest value. The GPU computes more slowly during an exchange: C seconds of
/// computation and E seconds of an overlapping exchange end after max(C + beside x E, E) seconds
/// instead of max(C, E), where `beside` is profile.beside. `prices`: the price of each block.
Seconds exchange_load(const StepGraph& graph, const Cluster& cluster, const CostProfile& profile,
                      const std::vector<BlockPrice>& prices);

}  // namespace orrery::estimates

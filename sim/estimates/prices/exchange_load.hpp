// Time by which exchanges of gradients and parameters lengthen the computation beside them: the
// kernels of a collective take processors and memory bandwidth from those of the model. Used by the
// stepper. Pure functions; thread-safe.
#pragma once

#include <functional>
#include <vector>

#include "core/units.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Price of exchanges: returns the seconds for each byte of a collective that all communicators of
/// a stage execute at once, as the plan of the step executes the collective.
using ExchangePrice =
    std::function<double(std::uint32_t stage, Communicator which, OpCollective kind)>;

/// Collectives of one step of a rank that overlap computation, those of one kind together.
struct Exchange {
  Communicator communicator{};
  OpCollective collective{};
  Bytes bytes;  ///< sum of the full sizes
};

/// Returns the collectives of gradients and parameters that one step of `stage` executes beside
/// computation, which are those of the stage's program; none if the job overlaps nothing. For
/// example, 8e9 parameters in 16 bits with a sharded optimizer: 16e9 bytes of gradients are
/// scattered and 16e9 bytes of parameters are gathered.
std::vector<Exchange> exchanges_beside(const StepGraph& graph, std::uint32_t stage);

/// Returns the seconds that the exchanges of one step take alone on a rank of `stage`, without
/// latencies. For example, the 32e9 bytes above among 64 GPUs on nodes of eight, whose rings leave
/// a node over eight NICs of 50 GB/s each: 32e9 x 63/64 / (8 x 50e9) = 0.079 s.
Seconds exchange_time(const StepGraph& graph, std::uint32_t stage, const ExchangePrice& price);

/// Returns the seconds by which exchanges lengthen the computation that overlaps them, of the stage
/// with the largest value. The GPU computes more slowly during an exchange: C seconds of
/// computation and E seconds of an overlapping exchange end after max(C + beside x E, E) seconds
/// instead of max(C, E). `prices`: the price of each block. `price` is not called if `beside` is 0.
Seconds exchange_load(const StepGraph& graph, double beside, const std::vector<BlockPrice>& prices,
                      const ExchangePrice& price);

}  // namespace orrery::estimates

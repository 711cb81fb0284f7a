// Merging of blocks of a program that nothing but the next block waits for. Called by
// sim/estimates/step/step_programs for steps of which only the duration is wanted. Pure;
// thread-safe. Seconds.
#pragma once

#include <vector>

#include "sim/estimates/prices/cost_model.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Returns the program with runs of compute operations merged into one operation each, whose price
/// is the sum of theirs and is appended to `prices`. All communications keep their begins and ends
/// if GPUs have equal speeds: a run ends with an operation for which a communication or a read
/// waits, and a new run begins where a compute operation waits for a communication or a read that
/// has not ended certainly. Does not keep the phases and micro-batches of merged operations.
///
/// For example, eight micro-batches of one stage, whose gradients are reduced after the last one,
/// become one long block before the blocks of the last backward pass.
Program merge_blocks(const Program& program, std::vector<BlockPrice>& prices);

}  // namespace orrery::estimates

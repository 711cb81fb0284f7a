// Compute blocks of one pipeline stage: the kernels of a micro-batch with shapes, floating-point
// operations and bytes, and the collectives between them. Used by step_graph.cpp only. Thread-safe:
// pure functions. FLOPs are those that kernels execute: 2mnk for a GEMM, twice the forward pass for
// the backward pass, none for memory-bound kernels. Flash attention skips masked scores, so causal
// attention counts half; its backward kernel recomputes the scores, for which the cost model may
// charge (name "attention_backward") but which are no FLOPs here. Unfused attention computes every
// score and moves it through memory: softmax and dropout as in the fused kernels of Megatron-LM.
// Biases, learnt positions and the loss's scalar collectives are negligible and left out. For
// example, a projection of 4,096 tokens from 4,096 to 12,288 has 2 x 4,096 x 4,096 x 12,288 FLOPs.
#pragma once

#include "traces/workload/rank_shape.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery {

/// Parts of a backward pass: the previous stage waits for `input`; `weight` are the products for
/// the weights' gradients, which may run later (zero bubble, arXiv:2401.10241).
enum class BackwardPart : std::uint8_t { whole, input, weight };

/// Returns the block of a stage's forward pass.
Block forward_block(const RankShape& rank, const StageShape& stage);
/// Returns the block of the fraction `share` [0, 1] of a stage's backward pass over its layers;
/// `head` and `table` add the output projection and the embedding. Recomputation comes first.
Block backward_block(const RankShape& rank, const StageShape& stage, double share, bool head,
                     bool table, BackwardPart part = BackwardPart::whole);
/// Returns the block of Adam with fp32 moments, and fp32 master weights if the weights are bf16.
/// `parameters`: those whose state this rank holds. `gradient`: bytes of one gradient (0: those of
/// a weight).
Block optimizer_block(double parameters, double element, double gradient = 0);

}  // namespace orrery

// The compute blocks of one pipeline stage: which kernels a micro-batch runs there, with shapes,
// floating-point operations and bytes, and the collectives between them. Used by step_graph.cpp
// only. Thread-safe: pure functions.
//
// FLOPs are those that kernels execute: 2mnk for a GEMM, backward twice the forward, nothing for
// memory-bound kernels. Flash attention skips what is masked, so causal attention counts half; its
// backward kernel recomputes the scores, which the cost model may charge for (name
// "attention_backward") but which are no FLOPs here. Unfused attention computes every score and
// moves it through memory: softmax and dropout as the fused kernels of Megatron-LM do.
// Biases, learnt positions and the loss's scalar collectives are negligible and left out.
#pragma once

#include "traces/training/rank_shape.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery {

/// Halves of a backward pass: `input` is what the stage before waits for, `weight` the products
/// for the weights' gradients, which may run later (zero bubble, arXiv:2401.10241).
enum class BackwardPart : std::uint8_t { whole, input, weight };

Block forward_block(const RankShape& rank, const StageShape& stage);
/// The share [0, 1] of a stage's backward pass over its layers; `head` and `table` say whether
/// the output projection's and the embedding's belong to it. Recomputation comes first.
Block backward_block(const RankShape& rank, const StageShape& stage, double share, bool head,
                     bool table, BackwardPart part = BackwardPart::whole);
/// Adam with fp32 moments, and fp32 master weights where the weights are bf16. `parameters`: those
/// whose state this rank holds. gradient: bytes of one (0: those of a weight).
Block optimizer_block(double parameters, double element, double gradient = 0);

}  // namespace orrery

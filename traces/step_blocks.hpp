// The compute blocks of one pipeline stage: which kernels a micro-batch runs there, with shapes,
// floating-point operations and bytes. Used by step_graph.cpp only. Thread-safe: pure functions.
//
// FLOPs are those of the model: 2mnk for a GEMM, causal attention at half, backward twice the
// forward, nothing for memory-bound kernels. Attention is of the flash kind: the score matrix
// never goes through memory; its backward kernel recomputes the scores, which the cost model may
// charge for (name "attention_backward"), but which is no model FLOP.
#pragma once

#include <cstdint>

#include "traces/step_graph.hpp"

namespace orrery {

/// What a stage holds.
struct StageShape {
  std::uint32_t layers = 0;
  bool first = false;  ///< has the embedding
  bool last = false;   ///< has the output projection and the loss
  friend bool operator==(const StageShape&, const StageShape&) = default;
};

/// A transformer job's dimensions on one rank. Bytes and parameters are per rank.
struct RankShape {
  explicit RankShape(const Job& job);

  double tokens, sequence, batch;  ///< of one micro-batch
  double hidden, head;             ///< head: size of one attention head
  double heads, kv_heads;          ///< on this rank
  double feed_forward, mlp_up;     ///< on this rank; mlp_up counts the gate too
  double vocabulary;               ///< on this rank
  double tensor;
  double element;         ///< bytes of an activation, a weight and a gradient
  bool gated, split_tokens;  ///< split_tokens: sequence parallel and tensor > 1

  /// Tokens that this rank's norms and residuals see.
  double own_tokens() const { return split_tokens ? tokens / tensor : tokens; }
  double parameters(const StageShape& stage) const;
};

Block forward_block(const RankShape& rank, const StageShape& stage);
/// The share [0, 1] of a stage's backward pass over its layers; `head` and `table` say whether
/// the output projection's and the embedding's belong to it.
Block backward_block(const RankShape& rank, const StageShape& stage, double share, bool head,
                     bool table);
/// Adam with fp32 moments, and fp32 master weights where the weights are bf16.
Block optimizer_block(double parameters, double element);

}  // namespace orrery

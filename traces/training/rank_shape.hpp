// The dimensions of a transformer job on one rank: what the layout leaves of tokens, heads, MLP,
// experts and vocabulary, and what a stage holds. Used by step_blocks.cpp, step_graph.cpp and
// step_memory.cpp. Plain values; thread-safe. Bytes and counts are per rank.
#pragma once

#include <cstdint>

#include "traces/scenario.pb.h"

namespace orrery {

/// What a stage, or one model chunk of it, holds.
struct StageShape {
  std::uint32_t layers = 0;
  std::uint32_t sparse_layers = 0;  ///< of them, those with experts instead of an MLP
  bool first = false;               ///< has the embedding
  bool last = false;                ///< has the output projection and the loss
  friend bool operator==(const StageShape&, const StageShape&) = default;
};

/// Ranks that split one expert, where the layout does not say: experts that are spread stay whole,
/// as the recipes of Megatron-Core have them (expert-tensor-parallel-size 1).
std::uint32_t expert_tensor(const Layout& layout);

/// Layers go round the stages chunk by chunk, the remainder to the first ones; or in order by cost
/// (Layout.balance).
StageShape stage_shape(const Job& job, std::uint32_t stage, std::uint32_t chunk);
/// Stages of a layout balanced by cost that no part of the model is left for: it cannot start.
std::uint32_t stages_left_empty(const Job& job);

/// A mixture of experts on one rank; all zero where the model is dense.
struct ExpertShape {
  double count = 0, top_k = 0;
  double local = 0;         ///< experts held here
  double tensor = 1;        ///< ranks that split one expert
  double rows = 0;          ///< tokens of one local expert, on the busiest rank
  double sent = 0;          ///< copies of tokens that a rank sends to experts, the busiest takes
  double feed_forward = 0, up = 0;                ///< of one expert, here; up counts the gate too
  double shared_feed_forward = 0, shared_up = 0;  ///< of all shared experts, here
};

enum class Recompute : std::uint8_t { none, selective, full };

struct RankShape {
  explicit RankShape(const Job& job);

  double sequence = 0, batch = 0;  ///< whole sequences of one micro-batch
  double tokens = 0;               ///< of one micro-batch, on this context rank
  double hidden = 0;
  double heads = 0, kv_heads = 0;  ///< on this rank
  double head = 0, value = 0;      ///< sizes of a head's query or key, and of its value
  double reach = 0;   ///< mean tokens that a token of a document of the sequence could score
  double query_rank = 0, key_value_rank = 0, rotary = 0;  ///< of latent attention, else 0
  double feed_forward = 0, mlp_up = 0;  ///< on this rank; mlp_up counts the gate too
  double vocabulary = 0;                ///< on this rank
  double tensor = 1, context = 1;
  ExpertShape expert;
  double element = 2;      ///< bytes of an activation and of a weight
  double low_element = 2;  ///< bytes of an operand of the layers' products
  double gradient = 2;     ///< bytes of a gradient
  double hidden_share = 0;  ///< of the tensor-parallel collectives, behind products
  double hidden_exchange = 0;  ///< of the exchange of tokens between the experts' ranks
  Recompute recompute = Recompute::none;
  double again = 0;     ///< share of the layers that are computed again
  double adapter = 0;   ///< rank of the adapters that are trained instead of the weights; 0: none
  bool flash = true, causal = true, gated = true, tied = false;
  bool split_tokens = false;  ///< sequence parallel and tensor > 1

  bool latent() const { return key_value_rank > 0; }
  /// Tokens that this rank's norms and residuals see.
  double own_tokens() const { return split_tokens ? tokens / tensor : tokens; }
  /// Tokens of the sequence that go into the attention's first products (latents are gathered).
  double gathered_width() const;
  /// Pairs of a query and a key of one head that a fused kernel scores.
  double scored() const { return tokens * reach * (causal ? 0.5 : 1); }
  double parameters(const StageShape& stage) const;
  /// Of them, those that have gradients: all, or the adapters' instead.
  double trained(const StageShape& stage) const;
  /// Of them, those of experts: their gradients go to other ranks than the rest.
  double expert_parameters(const StageShape& stage) const;
};

}  // namespace orrery

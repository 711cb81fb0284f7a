// Dimensions of a transformer job on one rank: its share of tokens, heads, MLP, experts and
// vocabulary, and the contents of a stage. Used by step_blocks.cpp, step_graph.cpp and
// step_memory.cpp. Plain values; thread-safe. Bytes and counts are per rank. For example, 32 heads
// over 8 tensor ranks are 4 heads on this rank.
#pragma once

#include <cstdint>

#include "traces/scenario.pb.h"
#include "traces/workload/job_choices.hpp"

namespace orrery {

/// Contents of a stage, or of one model chunk of it.
struct StageShape {
  std::uint32_t layers = 0;
  std::uint32_t sparse_layers = 0;  ///< layers with experts instead of an MLP
  std::uint32_t windowed_layers = 0;  ///< layers whose attention has a window
  bool first = false;               ///< true: contains the embedding
  bool last = false;                ///< true: contains the output projection and the loss
  std::uint32_t begin = 0;          ///< index of the first layer in the model
  /// Returns true if both have as many layers of each kind, wherever in the model.
  friend bool operator==(const StageShape& a, const StageShape& b) {
    return a.layers == b.layers && a.sparse_layers == b.sparse_layers &&
           a.windowed_layers == b.windowed_layers && a.first == b.first && a.last == b.last;
  }
};

/// Returns the layers `first` up to `first + count` of a job's model, without embedding and loss.
StageShape layers_from(const Job& job, std::uint32_t first, std::uint32_t count);

/// Returns the number of ranks that split one expert: Layout.expert_tensor if given; else all
/// tensor ranks, unless experts are distributed: those stay whole, as in the recipes of
/// Megatron-Core (expert-tensor-parallel-size 1).
std::uint32_t expert_tensor(const Layout& layout);

/// Returns the contents of a stage's chunk. Layers are distributed to the stages chunk by chunk,
/// the remainder to the first ones, or in order by cost (Layout.balance; `chunk` is then ignored).
/// With one or two chunks more than layers, the embedding and the loss count as layers: the last
/// chunk has the loss only, and with two more the first chunk has the embedding only.
/// `stage` and `chunk` must be in the layout, whose pipeline must not be 0 (not checked).
StageShape stage_shape(const Job& job, std::uint32_t stage, std::uint32_t chunk);
/// Returns the largest number of chunks, over all stages, that a model can be cut into: one for
/// each layer, and one each for the embedding and the loss.
std::uint32_t most_parts(const Model& model);
/// Returns the number of stages without any part of the model in a layout balanced by cost: such a
/// job cannot start. Returns 0 for any other balance.
std::uint32_t stages_left_empty(const Job& job);

/// Mixture of experts on one rank; all zero in a dense model.
struct ExpertShape {
  double count = 0, top_k = 0;
  double local = 0;         ///< experts held by this rank
  double tensor = 1;        ///< ranks that split one expert
  double rows = 0;          ///< tokens of one local expert, on the busiest rank
  /// copies of tokens that a rank sends to experts, as the busiest rank receives them
  double sent = 0;
  double feed_forward = 0, up = 0;  ///< share of one expert on this rank; up includes the gate
  /// Tokens of all experts together for each token of a sequence, top_k x capacity, which one-hot
  /// masks dispatch and combine (Experts.dispatch einsum); 0: rows are copied.
  double slots = 0;
  double shared_feed_forward = 0, shared_up = 0;  ///< share of all shared experts on this rank
};

/// Dimensions of a job on one rank.
struct RankShape {
  explicit RankShape(const Job& job);  ///< the model must be resolved

  double sequence = 0, batch = 0;  ///< complete sequences of one micro-batch
  double tokens = 0;               ///< tokens of one micro-batch on this context rank
  double hidden = 0;
  double heads = 0, kv_heads = 0;  ///< heads on this rank
  double head = 0, value = 0;      ///< sizes of a head's query or key, and of its value
  double reach = 0;   ///< mean number of tokens that a token can attend to within its document
  double window = 0;  ///< the same in layers with a window of attention; 0: no layer has one
  double query_rank = 0, key_value_rank = 0, rotary = 0;  ///< sizes of latent attention, else 0
  double feed_forward = 0, mlp_up = 0;  ///< sizes on this rank; mlp_up includes the gate
  double vocabulary = 0;                ///< entries on this rank
  double tensor = 1, context = 1;
  /// true: attention has the whole sequence and a share of the heads (Layout.context_kind ulysses)
  bool splits_heads = false;
  ExpertShape expert;
  double element = 2;      ///< bytes of an activation and of a weight
  double low_element = 2;  ///< bytes of an operand of the layers' products
  double gradient = 2;     ///< bytes of a gradient
  double hidden_share = 0;  ///< fraction of the tensor-parallel collectives hidden behind products
  /// hidden fraction of the exchange of tokens between the experts' ranks
  double hidden_exchange = 0;
  Recompute recompute = Recompute::none;
  double again = 0;     ///< fraction of the layers that are recomputed
  double adapter = 0;   ///< rank of the adapters that are trained instead of the weights; 0: none
  bool flash = true, causal = true, gated = true, tied = false;
  bool split_tokens = false;  ///< sequence parallel and tensor > 1

  /// Returns true for latent attention.
  bool is_latent() const { return key_value_rank > 0; }
  /// Returns the tokens of this rank's norms and residuals.
  double own_tokens() const { return split_tokens ? tokens / tensor : tokens; }
  /// Returns the values of a token that tensor-parallel ranks gather before attention: `hidden`, or
  /// the latents if queries are latent too.
  double gathered_width() const;
  /// Returns the pairs of a query and a key of one head that a fused kernel scores, in a layer in
  /// which a token can attend to `among` tokens: `reach` or `window`.
  double scored(double among) const { return tokens * among * (causal ? 0.5 : 1); }
  /// Returns the parameters of a stage.
  double parameters(const StageShape& stage) const;
  /// Returns the parameters with gradients: all, or the adapters' instead.
  double trained(const StageShape& stage) const;
  /// Returns the parameters of experts, whose gradients go to other ranks than the rest.
  double expert_parameters(const StageShape& stage) const;
};

}  // namespace orrery

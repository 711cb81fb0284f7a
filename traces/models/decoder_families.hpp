// Families of decoder transformers with a Hugging Face config.json: the keys that hold their sizes,
// and the parameters that follow from the family alone. hugging_face.cpp interprets the table; each
// row is checked against the parameter counts of the `transformers` library
// (tests/traces/models/counts.csv). Thread-safe; constant data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/models/decoder.hpp"

namespace orrery {

/// Truth value of a family: the value of a key, or `usual` if the file lacks the key. An empty key
/// means always `usual`.
struct Switch {
  bool usual = false;
  std::string_view key = {};
};

/// Rule by which a family's layers have experts.
enum class SparseLayers : std::uint8_t {
  all,          ///< every layer
  after_first,  ///< all behind `first_k_dense_replace` layers
  every_nth,    ///< every `decoder_sparse_step`-th layer outside of `mlp_only_layers`
  interleaved,  ///< `moe_layers`, else every `interleave_moe_layer_step`-th layer
  range,        ///< from `moe_layer_start_index` to `moe_layer_end_index`, by `moe_layer_interval`
};

/// Keys of a family with experts; an empty `count` means a dense family.
struct ExpertKeys {
  std::string_view count = {}, other_count = {};  ///< routed experts; the name in older files
  std::string_view top_k = "num_experts_per_tok";
  std::string_view inner = "intermediate_size";        ///< size of one expert
  std::string_view dense_inner = "intermediate_size";  ///< MLP of layers without experts
  std::string_view shared_count = {};  ///< shared experts of the size of a routed one
  std::string_view shared_inner = {};  ///< inner size of all shared experts together
  std::uint32_t usual_shared = 0;      ///< shared experts of a family without a key for them
  SparseLayers layers = SparseLayers::all;
  bool router_bias = false, expert_bias = false, shared_gate = false;
};

/// Sizes of files that lack their keys; 0: the key is required (kv_heads: as many as heads).
struct UsualSizes {
  std::uint32_t heads = 0, kv_heads = 0, vocabulary = 0;
};

/// One family. Defaults are those of Llama.
struct DecoderFamily {
  std::string_view name;  ///< model_type
  std::string_view layers = "num_hidden_layers", hidden = "hidden_size",
                   heads = "num_attention_heads", kv_heads = "num_key_value_heads",
                   inner = "intermediate_size";
  bool gated = true, tied = false;
  bool four_times = false;      ///< an absent inner size is four times `hidden`
  std::uint32_t head_size = 0;  ///< size without head_dim; 0: hidden / heads
  UsualSizes usual = {};
  Switch query_bias = {}, output_bias = {}, mlp_bias = {}, vocabulary_bias = {};
  double norm_values = 1, layer_norms = 2;
  HeadNorm head_norm = HeadNorm::none;
  Switch head_norms = {true};  ///< whether the family's head_norm is there
  double head_norm_values = 1;
  bool embedding_norm = false, sinks = false, latent = false;
  bool parallel = false;            ///< attention and MLP have the same input
  double activation = 0;            ///< values of a layer's activation function
  std::string_view positions = {};  ///< key of the rows of the table of positions
  std::uint32_t more_positions = 0;
  ExpertKeys experts = {};
};

/// Returns all families, in alphabetical order.
std::span<const DecoderFamily> decoder_families();

/// Returns the reason why models of this type are refused, and "" for all other types.
std::string_view refused_model_type(std::string_view type);

}  // namespace orrery

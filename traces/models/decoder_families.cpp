#include "traces/models/decoder_families.hpp"

#include <array>

namespace orrery {
namespace {

constexpr Switch kAlways{true}, kAttentionBias{false, "attention_bias"},
    kMlpBias{false, "mlp_bias"}, kUseBias{false, "use_bias"};

constexpr ExpertKeys kMixtralExperts{.count = "num_local_experts", .other_count = "num_experts"};
constexpr ExpertKeys kDeepSeekExperts{.count = "n_routed_experts",
                                      .other_count = "num_experts",
                                      .inner = "moe_intermediate_size",
                                      .shared_count = "n_shared_experts",
                                      .layers = SparseLayers::after_first};
constexpr ExpertKeys kQwenExperts{.count = "num_experts",
                                  .other_count = "num_local_experts",
                                  .inner = "moe_intermediate_size",
                                  .layers = SparseLayers::every_nth};

constexpr ExpertKeys with_shared(ExpertKeys keys, std::string_view inner, bool gate) {
  keys.shared_inner = inner;
  keys.shared_gate = gate;
  return keys;
}

/// A family with the shape of Llama under another name.
constexpr DecoderFamily like_llama(std::string_view name, bool tied = false) {
  return {.name = name,
          .tied = tied,
          .query_bias = kAttentionBias,
          .output_bias = kAttentionBias,
          .mlp_bias = kMlpBias};
}

/// A family with the shape of GPT-J.
constexpr DecoderFamily like_gptj(std::string_view name) {
  return {.name = name,
          .layers = "n_layer",
          .hidden = "n_embd",
          .heads = "n_head",
          .kv_heads = {},
          .inner = "n_inner",
          .gated = false,
          .four_times = true,
          .mlp_bias = kAlways,
          .vocabulary_bias = kAlways,
          .norm_values = 2,
          .layer_norms = 1,
          .parallel = true};
}

constexpr DecoderFamily like_gemma(std::string_view name, double norms, HeadNorm head_norm,
                                   UsualSizes usual = {}) {
  return {.name = name,
          .tied = true,
          .head_size = 256,
          .usual = usual,
          .query_bias = kAttentionBias,
          .output_bias = kAttentionBias,
          .layer_norms = norms,
          .head_norm = head_norm};
}

constexpr DecoderFamily like_olmo2(std::string_view name) {
  return {.name = name,
          .query_bias = kAttentionBias,
          .output_bias = kAttentionBias,
          .head_norm = HeadNorm::whole};
}

constexpr DecoderFamily like_deepseek(std::string_view name) {
  return {.name = name,
          .query_bias = kAttentionBias,
          .output_bias = kAttentionBias,
          .latent = true,
          .experts = kDeepSeekExperts};
}

constexpr std::array kFamilies{
    DecoderFamily{.name = "apertus",
                  .gated = false,
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .head_norm = HeadNorm::shared,
                  .activation = 2},
    DecoderFamily{.name = "arcee",
                  .gated = false,
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .mlp_bias = kMlpBias},
    DecoderFamily{.name = "bloom",
                  .layers = "n_layer",
                  .heads = "n_head",
                  .kv_heads = {},
                  .inner = {},
                  .gated = false,
                  .tied = true,
                  .four_times = true,
                  .query_bias = kAlways,
                  .output_bias = kAlways,
                  .mlp_bias = kAlways,
                  .norm_values = 2,
                  .embedding_norm = true},
    like_gptj("codegen"),
    DecoderFamily{.name = "cohere",
                  .tied = true,
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .layer_norms = 1,
                  .head_norm = HeadNorm::whole,
                  .head_norms = {false, "use_qk_norm"},
                  .parallel = true},
    DecoderFamily{.name = "cohere2",
                  .tied = true,
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .layer_norms = 1,
                  .parallel = true},
    like_deepseek("deepseek_v2"),
    like_deepseek("deepseek_v3"),
    DecoderFamily{.name = "ernie4_5",
                  .tied = true,
                  .head_size = 128,
                  .query_bias = kUseBias,
                  .output_bias = kUseBias,
                  .mlp_bias = kUseBias},
    DecoderFamily{.name = "ernie4_5_moe",
                  .tied = true,
                  .query_bias = kUseBias,
                  .output_bias = kUseBias,
                  .mlp_bias = kUseBias,
                  .experts = {.count = "moe_num_experts",
                              .top_k = "moe_k",
                              .inner = "moe_intermediate_size",
                              .shared_count = "moe_num_shared_experts",
                              .layers = SparseLayers::range,
                              .router_bias = true}},
    DecoderFamily{.name = "exaone4", .head_norm = HeadNorm::shared},
    // Keys of falcon that depend on one another: hugging_face.cpp.
    DecoderFamily{.name = "falcon",
                  .kv_heads = {},
                  .inner = "ffn_hidden_size",
                  .gated = false,
                  .tied = true,
                  .four_times = true,
                  .query_bias = {false, "bias"},
                  .output_bias = {false, "bias"},
                  .mlp_bias = {false, "bias"},
                  .norm_values = 2},
    like_gemma("gemma", 2, HeadNorm::none),
    like_gemma("gemma2", 4, HeadNorm::none),
    // Published files of gemma3 leave these sizes out.
    like_gemma("gemma3_text", 4, HeadNorm::shared,
               {.heads = 8, .kv_heads = 4, .vocabulary = 262208}),
    DecoderFamily{.name = "glm", .head_size = 128, .query_bias = {true, "attention_bias"}},
    DecoderFamily{
        .name = "glm4", .head_size = 128, .query_bias = {true, "attention_bias"}, .layer_norms = 4},
    DecoderFamily{.name = "glm4_moe",
                  .query_bias = kAttentionBias,
                  .head_norm = HeadNorm::shared,
                  .head_norms = {false, "use_qk_norm"},
                  .experts = kDeepSeekExperts},
    DecoderFamily{.name = "gpt2",
                  .layers = "n_layer",
                  .hidden = "n_embd",
                  .heads = "n_head",
                  .kv_heads = {},
                  .inner = "n_inner",
                  .gated = false,
                  .tied = true,
                  .four_times = true,
                  .query_bias = kAlways,
                  .output_bias = kAlways,
                  .mlp_bias = kAlways,
                  .norm_values = 2,
                  .positions = "n_positions"},
    DecoderFamily{.name = "gpt_bigcode",
                  .layers = "n_layer",
                  .hidden = "n_embd",
                  .heads = "n_head",
                  .kv_heads = {},
                  .inner = "n_inner",
                  .gated = false,
                  .tied = true,
                  .four_times = true,
                  .query_bias = kAlways,
                  .output_bias = kAlways,
                  .mlp_bias = kAlways,
                  .norm_values = 2,
                  .positions = "n_positions"},
    DecoderFamily{.name = "gpt_neo",
                  .layers = "num_layers",
                  .heads = "num_heads",
                  .kv_heads = {},
                  .gated = false,
                  .tied = true,
                  .four_times = true,
                  .output_bias = kAlways,
                  .mlp_bias = kAlways,
                  .norm_values = 2,
                  .positions = "max_position_embeddings"},
    DecoderFamily{.name = "gpt_neox",
                  .kv_heads = {},
                  .gated = false,
                  .query_bias = {true, "attention_bias"},
                  .output_bias = {true, "attention_bias"},
                  .mlp_bias = kAlways,
                  .norm_values = 2},
    DecoderFamily{.name = "gpt_oss",
                  .head_size = 64,
                  .query_bias = {true, "attention_bias"},
                  .output_bias = {true, "attention_bias"},
                  .sinks = true,
                  .experts = {.count = "num_local_experts",
                              .other_count = "num_experts",
                              .router_bias = true,
                              .expert_bias = true}},
    like_gptj("gptj"),
    like_llama("granite"),
    DecoderFamily{.name = "granitemoe",
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .experts = kMixtralExperts},
    DecoderFamily{.name = "granitemoeshared",
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .experts = with_shared(kMixtralExperts, "shared_intermediate_size", false)},
    like_llama("helium"),
    like_llama("llama"),
    DecoderFamily{.name = "llama4_text",
                  .head_size = 128,
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .experts = {.count = "num_local_experts",
                              .dense_inner = "intermediate_size_mlp",
                              .usual_shared = 1,
                              .layers = SparseLayers::interleaved}},
    DecoderFamily{.name = "minimax_m2", .head_norm = HeadNorm::whole, .experts = kMixtralExperts},
    DecoderFamily{.name = "mistral"},
    DecoderFamily{.name = "mixtral", .experts = kMixtralExperts},
    DecoderFamily{.name = "mpt",
                  .layers = "n_layers",
                  .hidden = "d_model",
                  .heads = "n_heads",
                  .kv_heads = {},
                  .inner = {},
                  .gated = false,
                  .tied = true,
                  .four_times = true},
    DecoderFamily{.name = "nemotron",
                  .gated = false,
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .mlp_bias = kMlpBias,
                  .norm_values = 2},
    DecoderFamily{.name = "olmo",
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .norm_values = 0},
    like_olmo2("olmo2"),
    like_olmo2("olmo3"),
    DecoderFamily{.name = "olmoe",
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .head_norm = HeadNorm::whole,
                  .experts = {.count = "num_experts", .other_count = "num_local_experts"}},
    // Keys of opt that depend on one another: hugging_face.cpp.
    DecoderFamily{.name = "opt",
                  .kv_heads = {},
                  .inner = "ffn_dim",
                  .gated = false,
                  .tied = true,
                  .query_bias = {true, "enable_bias"},
                  .output_bias = {true, "enable_bias"},
                  .mlp_bias = {true, "enable_bias"},
                  .norm_values = 2,
                  .positions = "max_position_embeddings",
                  .more_positions = 2},
    DecoderFamily{.name = "persimmon",
                  .kv_heads = {},
                  .gated = false,
                  .query_bias = kAlways,
                  .output_bias = kAlways,
                  .mlp_bias = kAlways,
                  .norm_values = 2,
                  .head_norm = HeadNorm::shared,
                  .head_norms = {true, "qk_layernorm"},
                  .head_norm_values = 2},
    DecoderFamily{.name = "phi",
                  .gated = false,
                  .query_bias = kAlways,
                  .output_bias = kAlways,
                  .mlp_bias = kAlways,
                  .vocabulary_bias = kAlways,
                  .norm_values = 2,
                  .layer_norms = 1,
                  .head_norm = HeadNorm::shared,
                  .head_norms = {false, "qk_layernorm"},
                  .head_norm_values = 2,
                  .parallel = true},
    DecoderFamily{.name = "phi3"},
    DecoderFamily{.name = "phimoe",
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .vocabulary_bias = {false, "lm_head_bias"},
                  .norm_values = 2,
                  .experts = kMixtralExperts},
    DecoderFamily{.name = "qwen2", .query_bias = kAlways},
    DecoderFamily{.name = "qwen2_moe",
                  .query_bias = {true, "qkv_bias"},
                  .experts = with_shared(kQwenExperts, "shared_expert_intermediate_size", true)},
    DecoderFamily{.name = "qwen3",
                  .head_size = 128,
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .head_norm = HeadNorm::shared},
    DecoderFamily{.name = "qwen3_moe",
                  .query_bias = kAttentionBias,
                  .output_bias = kAttentionBias,
                  .head_norm = HeadNorm::shared,
                  .experts = kQwenExperts},
    DecoderFamily{.name = "seed_oss",
                  .head_size = 128,
                  .query_bias = {true, "attention_bias"},
                  .output_bias = {false, "attention_out_bias"},
                  .mlp_bias = kMlpBias},
    like_llama("smollm3", true),
    DecoderFamily{.name = "stablelm",
                  .query_bias = {false, "use_qkv_bias"},
                  .norm_values = 2,
                  .head_norm = HeadNorm::whole,
                  .head_norms = {false, "qk_layernorm"}},
    DecoderFamily{.name = "starcoder2",
                  .gated = false,
                  .tied = true,
                  .query_bias = {true, "use_bias"},
                  .output_bias = {true, "use_bias"},
                  .mlp_bias = {true, "use_bias"},
                  .norm_values = 2},
};

struct RefusedTypes {
  std::string_view reason;
  std::span<const std::string_view> types;
};

constexpr std::string_view kRecurrent[] = {"falcon_mamba", "mamba", "mamba2", "rwkv", "xlstm"};
constexpr std::string_view kHybrid[] = {
    "bailing_hybrid", "bamba",   "falcon_h1",   "granitemoehybrid", "jamba",
    "kimi_linear",    "lfm2",    "lfm2_moe",    "minimax",          "nemotron_h",
    "olmo_hybrid",    "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text",
    "qwen3_next",     "zamba",   "zamba2",      "recurrent_gemma"};
constexpr std::string_view kTwoSided[] = {"bart",    "led",   "longt5", "m2m_100",
                                          "marian",  "mbart", "mt5",    "nllb",
                                          "pegasus", "t5",    "umt5",   "whisper"};
constexpr std::string_view kEncoder[] = {"albert",     "bert",       "clip",    "deberta",
                                         "deberta-v2", "distilbert", "electra", "modernbert",
                                         "roberta",    "siglip",     "vit",     "xlm-roberta"};
constexpr std::string_view kSparseAttention[] = {"deepseek_v32", "deepseek_v4", "glm_moe_dsa"};
constexpr std::string_view kPerLayer[] = {"gemma3n", "gemma3n_text", "gemma4", "gemma4_text",
                                          "gemma4_unified"};
constexpr std::string_view kExpertHeads[] = {"jetmoe"};
constexpr std::string_view kUneven[] = {"longcat_flash", "nemotron-nas", "openelm"};
constexpr std::string_view kCross[] = {"mllama"};

constexpr std::array kRefused{
    RefusedTypes{"its layers have no attention", kRecurrent},
    RefusedTypes{"some of its layers are recurrent or have linear attention", kHybrid},
    RefusedTypes{"it has an encoder beside its decoder", kTwoSided},
    RefusedTypes{"it is an encoder", kEncoder},
    RefusedTypes{"its attention selects tokens by an index", kSparseAttention},
    RefusedTypes{"its layers have embeddings of their own", kPerLayer},
    RefusedTypes{"its attention has experts", kExpertHeads},
    RefusedTypes{"its layers differ in their shapes", kUneven},
    RefusedTypes{"some of its layers attend to pictures", kCross},
};

}  // namespace

std::span<const DecoderFamily> decoder_families() { return kFamilies; }

std::string_view refused_model_type(std::string_view type) {
  for (const RefusedTypes& each : kRefused) {
    for (const std::string_view refused : each.types) {
      if (refused == type) return each.reason;
    }
  }
  return {};
}

}  // namespace orrery

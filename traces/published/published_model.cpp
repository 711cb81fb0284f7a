#include "traces/published/published_model.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/workload/framework.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/layer_weights.hpp"
#include "traces/workload/model.hpp"

namespace orrery {
namespace {

/// Facts of a published model that a table need not state. 0: none.
struct KnownModel {
  std::string_view named;        ///< beginning of its name in a table
  std::string_view preset = {};  ///< model of the catalogue with its attention and experts
  std::uint32_t head_size = 0;
  std::uint32_t window = 0;        ///< AttentionWindow.size
  std::uint32_t window_every = 0;  ///< AttentionWindow.every
  bool tied = false;
  /// True if the router corrects the loads of experts by a bias of each expert instead of a loss,
  /// so that they stay nearly even on any data (arXiv:2408.15664; DeepSeek-V3, arXiv:2412.19437).
  bool evens_loads = false;
  std::string_view refused = {};  ///< part of the model that no scenario can express
};
constexpr std::string_view kStateSpace = "state-space layers";
constexpr std::string_view kLinear = "layers of linear attention";
constexpr std::string_view kIndexed = "attention that selects tokens by an index";
/// Longer names come before their beginnings. The sizes of a preset and their sources are in
/// traces/catalog/models.yaml; the reader of model files refuses the same kinds of layers
/// (traces/models/decoder_families.cpp).
constexpr std::array kKnownModels = {
    KnownModel{.named = "deepseek-v3.2", .refused = kIndexed},  // arXiv:2512.02556
    KnownModel{.named = "deepseek-v4", .refused = kIndexed},
    KnownModel{.named = "deepseek-v3", .preset = "deepseek-v3", .evens_loads = true},
    KnownModel{.named = "deepseek3", .preset = "deepseek-v3", .evens_loads = true},
    KnownModel{.named = "deepseek-v2-lite", .preset = "deepseek-v2-lite-16b"},
    KnownModel{.named = "deepseek2-16b", .preset = "deepseek-v2-lite-16b"},  // MaxText's name
    KnownModel{.named = "deepseek-v2", .preset = "deepseek-v2-236b"},
    KnownModel{.named = "deepseekv2", .preset = "deepseek-v2-236b"},
    KnownModel{.named = "moonlight", .preset = "moonlight-16b-a3b", .evens_loads = true},
    KnownModel{.named = "kimi-k2", .preset = "kimi-k2-1t", .evens_loads = true},
    KnownModel{.named = "kimi-linear", .refused = kLinear},  // arXiv:2510.26692
    KnownModel{.named = "glm-4.5-air", .preset = "glm-4.5-air-106b", .evens_loads = true},
    // Trained from GLM-4.5-Air (arXiv:2512.16144).
    KnownModel{.named = "intellect-3", .preset = "glm-4.5-air-106b", .evens_loads = true},
    KnownModel{.named = "hunyuan3", .preset = "hunyuan3-295b-a21b"},
    KnownModel{.named = "llama4-maverick", .preset = "llama4-maverick-400b"},
    KnownModel{.named = "llama4-scout", .preset = "llama4-scout-109b"},
    KnownModel{.named = "qwen3-next", .refused = kLinear},  // layer_types of its config.json
    KnownModel{.named = "qwen3.5", .refused = kLinear},
    KnownModel{.named = "qwen3-30b", .preset = "qwen3-30b-a3b"},
    KnownModel{.named = "qwen3-235b", .preset = "qwen3-235b-a22b"},
    KnownModel{.named = "qwen3", .head_size = 128},  // arXiv:2505.09388
    // arXiv:2508.10925: "alternating banded window and fully dense patterns", 128 tokens
    KnownModel{.named = "gpt-oss", .head_size = 64, .window = 128, .window_every = 2},
    KnownModel{.named = "gemma-3-27b", .preset = "gemma-3-27b"},
    // MaxText, configs/models/gemma4-26b.yml and gemma4-31b.yml; five of six layers are local as in
    // Gemma 3 (arXiv:2503.19786)
    KnownModel{.named = "gemma4", .head_size = 256, .window = 1024, .window_every = 6},
    KnownModel{.named = "grok1", .preset = "grok1-314b"},
    KnownModel{.named = "minimax-m2", .head_size = 128},  // MiniMaxAI/MiniMax-M2 config.json
    KnownModel{.named = "nemotron3", .refused = kStateSpace},  // arXiv:2512.20848
    KnownModel{.named = "nemotron-3", .refused = kStateSpace},
    KnownModel{.named = "nemotron-h", .refused = kStateSpace},  // arXiv:2504.03624
    KnownModel{.named = "jamba", .refused = kStateSpace},       // arXiv:2403.19887
    KnownModel{.named = "mamba", .refused = kStateSpace},
    KnownModel{.named = "gpt", .tied = true},
    KnownModel{.named = "megatron", .tied = true},
    KnownModel{.named = "mt-nlg", .tied = true},
    KnownModel{.named = "mpt", .tied = true},
    KnownModel{.named = "bloom", .tied = true},
    KnownModel{.named = "opt", .tied = true},
};

KnownModel known_model(std::string_view name) {
  const std::string lower = lower_case(name);
  for (const KnownModel& each : kKnownModels) {
    if (lower.starts_with(each.named)) return each;
  }
  return {};
}

/// Returns the model of the catalogue with a row's attention and experts; without sizes if none is
/// known.
Model similar_model(const KnownModel& known) {
  Model model;
  if (known.preset.empty()) return model;
  model.set_preset(std::string(known.preset));
  resolve(model, {}, "model");
  return model;
}

std::uint32_t needed(const TableRow::Count& count, std::string_view column) {
  if (!count) throw Refusal{fmt::format("'{}' is missing", column)};
  return *count;
}

std::optional<std::uint32_t> whole_number(std::string_view text) {
  double value = 0;
  if (text.empty()) return std::nullopt;
  for (const char c : text) {
    if (c < '0' || c > '9' || value > 1e8) return std::nullopt;
    value = 10 * value + (c - '0');
  }
  return static_cast<std::uint32_t>(value);
}

/// Returns the latents of a text such as "1536/512/128/64/128"; a first number of 0: queries have
/// no latent.
LatentAttention latents_of(std::string_view text) {
  std::array<std::uint32_t, 5> sizes{};
  std::string_view rest = text;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t end = rest.find('/');
    const std::optional<std::uint32_t> size = whole_number(rest.substr(0, end));
    const bool is_last = i + 1 == sizes.size();
    if (!size || (*size == 0 && i > 0) || *size > 10000 ||
        is_last != (end == std::string_view::npos)) {
      throw Refusal{fmt::format("latent is '{}', expected none or five sizes up to 10000: latent "
                                "of queries / of keys and values / plain / rotary / value, for "
                                "example 1536/512/128/64/128",
                                shown(text))};
    }
    sizes[i] = *size;
    if (!is_last) rest.remove_prefix(end + 1);
  }
  LatentAttention latent;
  latent.set_query_rank(sizes[0]);
  latent.set_key_value_rank(sizes[1]);
  latent.set_plain(sizes[2]);
  latent.set_rotary(sizes[3]);
  latent.set_value(sizes[4]);
  return latent;
}

/// Returns the latents of a row's attention; nothing for attention without latents. Configuration
/// files of models with latents name as many heads of keys and values as heads
/// (deepseek-ai/DeepSeek-V3 config.json, num_key_value_heads), and so do tables.
std::optional<LatentAttention> latents_of(const TableRow& row, const Model& similar,
                                          std::vector<std::string>& assumed) {
  const std::string written = lower_case(row.kv_heads), latent = lower_case(row.latent);
  const bool named = written == "mla";
  if (latent == "none") {
    if (!named) return std::nullopt;
    throw Refusal{"kv_heads is MLA and latent is none: expected heads of keys and values, or the "
                  "sizes of the latents"};
  }
  if (!latent.empty()) return latents_of(std::string_view(latent));
  const bool all_heads = written.empty() || whole_number(written) == row.heads;
  if (similar.has_latent_attention() && (named || all_heads)) return similar.latent_attention();
  if (!named) return std::nullopt;
  assumed.push_back("latent attention of DeepSeek-V3's sizes");
  Model usual;
  usual.set_preset("deepseek-v3");
  resolve(usual, {}, "model");
  return usual.latent_attention();
}

void take_attention(const TableRow& row, const KnownModel& known, const Model& similar,
                    Model& model, std::vector<std::string>& assumed) {
  if (const std::optional<LatentAttention> latent = latents_of(row, similar, assumed)) {
    if (row.head_size) {
      throw Refusal{fmt::format("head_size is {}, expected none beside latent attention, whose "
                                "sizes are in latent", *row.head_size)};
    }
    *model.mutable_latent_attention() = *latent;
    return;
  }
  const std::uint32_t usual = known.head_size > 0 ? known.head_size : similar.head_size();
  const std::uint32_t head_size = row.head_size.value_or(usual);
  if (head_size > 0) {
    model.set_head_size(head_size);
  } else if (model.hidden() % model.heads() != 0) {
    throw Refusal{fmt::format("heads = {} does not divide hidden = {}: give head_size",
                              model.heads(), model.hidden())};
  }
  if (row.kv_heads.empty()) {
    assumed.push_back("kv_heads = heads");
    return;
  }
  const std::optional<std::uint32_t> kv_heads = whole_number(row.kv_heads);
  if (!kv_heads || *kv_heads == 0 || *kv_heads > 10000) {
    throw Refusal{
        fmt::format("kv_heads is '{}', no whole number and not MLA", shown(row.kv_heads))};
  }
  model.set_kv_heads(*kv_heads);
}

/// Sets the window of attention. Layers with a window that the row counts have a period
/// (AttentionWindow.every); the nearest one if none has their number.
void take_window(const TableRow& row, const KnownModel& known, const Model& similar, Model& model,
                 std::vector<std::string>& assumed) {
  const bool is_similar = known.window == 0 && similar.has_window();
  const std::uint32_t usual = is_similar ? similar.window().size() : known.window;
  const std::uint32_t size = row.window.value_or(usual);
  if (size == 0) return;
  std::uint32_t every = is_similar ? similar.window().every() : known.window_every;
  if (row.window) every = 0;
  if (row.window_layers) {
    const std::uint32_t layers = std::min(*row.window_layers, model.layers());
    if (layers == 0) return;
    const std::optional<std::uint32_t> period = window_period(model.layers(), layers);
    every = period.value_or(model.layers() / (model.layers() - layers));
    if (!period) {
      assumed.push_back(fmt::format("windows in {} of {} layers, not in {}",
                                    model.layers() - model.layers() / every, model.layers(),
                                    layers));
    }
  }
  model.mutable_window()->set_size(size);
  model.mutable_window()->set_every(row.window_every.value_or(every));
}

/// Reads the distribution of tokens over experts: forced to be equal, or the busiest rank's load.
void take_balance(const TableRow& row, const KnownModel& known, Experts& experts,
                  std::vector<std::string>& assumed) {
  if (row.capacity) experts.set_capacity(*row.capacity);
  if (row.padded) experts.set_padded(*row.padded == 1);
  const std::string dispatch = lower_case(row.dispatch);
  if (!dispatch.empty() && !find_named<ExpertDispatch>(dispatch)) {
    throw Refusal{fmt::format("dispatch is '{}', expected permute or einsum", shown(row.dispatch))};
  }
  if (!dispatch.empty()) experts.set_dispatch(dispatch);
  const std::string balance = lower_case(row.balance);
  if (balance == "forced") return;
  if (balance.empty()) {
    assumed.push_back(row.capacity ? "routing balanced" : "routing balanced, nothing dropped");
    return;
  }
  if (balance == "natural") {
    if (known.evens_loads) {
      assumed.push_back("natural routing evened by the router's bias");
      return;
    }
    experts.set_routing(std::string(name_of(ExpertRouting::natural)));
    return;
  }
  double skew = 0;
  const char* const end = balance.data() + balance.size();
  const auto [stop, error] = std::from_chars(balance.data(), end, skew);
  if (error != std::errc{} || stop != end || !(skew >= 1 && skew <= 1000)) {
    throw Refusal{fmt::format("balance is '{}', expected forced, natural, or the load of the "
                              "busiest expert-parallel rank over the mean, from 1 to 1000",
                              shown(row.balance))};
  }
  experts.set_skew(skew);
}

/// Sets the sizes of experts and of layers without experts: `ffn` is the size of an expert, except
/// where it is the known size of the model's other layers.
void take_expert_sizes(const TableRow& row, const Model& similar, Model& model) {
  Experts& experts = *model.mutable_experts();
  std::uint32_t shared = 0, dense = 0, every = 1;
  if (similar.has_experts()) {
    const auto inner = static_cast<std::uint32_t>(expert_feed_forward(similar));
    if (model.feed_forward() == inner || model.feed_forward() == similar.feed_forward()) {
      experts.set_feed_forward(inner);
      model.set_feed_forward(similar.feed_forward());
    }
    shared = similar.experts().shared();
    dense = similar.experts().dense_layers();
    every = std::max(1u, similar.experts().every());
  }
  if (row.dense_ffn) {
    if (experts.feed_forward() == 0) experts.set_feed_forward(model.feed_forward());
    model.set_feed_forward(*row.dense_ffn);
  }
  if (row.dense_layers.value_or(0) > model.layers()) {
    throw Refusal{fmt::format("dense_layers is {}, expected at most the {} layers",
                              *row.dense_layers, model.layers())};
  }
  experts.set_shared(row.shared_experts.value_or(shared));
  experts.set_dense_layers(std::min(row.dense_layers.value_or(dense), model.layers()));
  experts.set_every(row.expert_every.value_or(every));
}

void take_experts(const TableRow& row, const KnownModel& known, const Model& similar, Model& model,
                  std::vector<std::string>& assumed) {
  if (!row.moe_experts) return;
  Experts& experts = *model.mutable_experts();
  experts.set_count(*row.moe_experts);
  experts.set_top_k(needed(row.moe_topk, "moe_topk"));
  take_expert_sizes(row, similar, model);
  take_balance(row, known, experts, assumed);
}

/// Sets whether one table serves as embedding and output, by the published number of parameters if
/// the row has one.
void take_tables(const TableRow& row, const KnownModel& known, const Model& similar, Model& model,
                 std::vector<std::string>& assumed) {
  model.set_tied_embeddings(known.tied || similar.tied_embeddings());
  if (!row.n_params_b) return;
  const double published = *row.n_params_b * 1e9;
  const auto distance = [&](bool tied) {
    Model tried = model;
    tried.set_tied_embeddings(tied);
    return std::abs(std::log(parameter_count(tried) / published));
  };
  const double separate = distance(false), shared = distance(true);
  if (std::abs(separate - shared) > 0.01) model.set_tied_embeddings(shared < separate);
  if (std::min(separate, shared) > 0.1) {
    assumed.push_back(fmt::format("the shape as written ({:.3g}e9 parameters, not {:.3g}e9)",
                                  parameter_count(model) / 1e9, *row.n_params_b));
  }
}

}  // namespace

Model published_model(const TableRow& row, std::vector<std::string>& assumed) {
  const KnownModel known = known_model(row.model);
  if (!known.refused.empty()) {
    throw Refusal{fmt::format("model is '{}', which has {}: expected attention over tokens and an "
                              "MLP or experts in each layer (docs/models.md)",
                              shown(row.model), known.refused)};
  }
  Model model;
  model.set_layers(needed(row.layers, "layers"));
  model.set_hidden(needed(row.hidden, "hidden"));
  model.set_heads(needed(row.heads, "heads"));
  model.set_feed_forward(needed(row.ffn, "ffn"));
  model.set_vocabulary(needed(row.vocab, "vocab"));
  model.set_gated(needed(row.gated_mlp, "gated_mlp") == 1);
  const Model similar = similar_model(known);
  take_attention(row, known, similar, model, assumed);
  take_window(row, known, similar, model, assumed);
  take_experts(row, known, similar, model, assumed);
  try {
    resolve(model, {}, "model");
    fill_defaults(model);
    take_tables(row, known, similar, model, assumed);
  } catch (const Error& error) {
    throw Refusal{error.message()};
  }
  return model;
}

}  // namespace orrery

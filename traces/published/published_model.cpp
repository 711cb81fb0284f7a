#include "traces/published/published_model.hpp"

#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/workload/framework.hpp"
#include "traces/workload/model.hpp"

namespace orrery {
namespace {

/// Values of a model of public configuration that tables have no columns for. 0: none.
struct KnownModel {
  std::string_view named;  ///< beginning of its name in a table
  std::uint32_t head_size = 0;
  std::uint32_t expert_feed_forward = 0, shared_experts = 0, dense_layers = 0;
  /// size of the dense layers where a table's `ffn` is that of an expert; 0: not known
  std::uint32_t dense_feed_forward = 0;
  bool tied = false;
};
constexpr std::array kKnownModels = {
    // arXiv:2412.19437, table of section 4.2
    KnownModel{.named = "deepseek-v3",
               .expert_feed_forward = 2048,
               .shared_experts = 1,
               .dense_layers = 3},
    // arXiv:2405.04434, section 3.1.2
    KnownModel{.named = "deepseekv2", .expert_feed_forward = 1536, .shared_experts = 2,
               .dense_layers = 1, .dense_feed_forward = 12288},
    KnownModel{.named = "qwen3", .head_size = 128},   // arXiv:2505.09388
    KnownModel{.named = "gpt-oss", .head_size = 64},  // arXiv:2508.10925
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

void take_attention(const TableRow& row, Model& model, std::vector<std::string>& assumed) {
  if (lower_case(row.kv_heads) == "mla") {
    // arXiv:2412.19437, section 4.2; the only public sizes.
    LatentAttention& latent = *model.mutable_latent_attention();
    latent.set_query_rank(1536);
    latent.set_key_value_rank(512);
    latent.set_plain(128);
    latent.set_rotary(64);
    latent.set_value(128);
    if (known_model(row.model).dense_layers == 0) {
      assumed.push_back("latent attention of DeepSeek-V3's sizes");
    }
    return;
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

void take_experts(const TableRow& row, const KnownModel& known, Model& model,
                  std::vector<std::string>& assumed) {
  if (!row.moe_experts) return;
  Experts& experts = *model.mutable_experts();
  experts.set_count(*row.moe_experts);
  experts.set_top_k(needed(row.moe_topk, "moe_topk"));
  if (known.expert_feed_forward > 0) experts.set_feed_forward(known.expert_feed_forward);
  if (known.dense_feed_forward > 0 && model.feed_forward() == known.expert_feed_forward) {
    model.set_feed_forward(known.dense_feed_forward);
  }
  experts.set_shared(known.shared_experts);
  experts.set_dense_layers(std::min(known.dense_layers, model.layers()));
  assumed.push_back("routing balanced, nothing dropped");
}

/// Sets whether one table serves as embedding and output, by the published number of parameters if
/// the row has one.
void take_tables(const TableRow& row, const KnownModel& known, Model& model,
                 std::vector<std::string>& assumed) {
  model.set_tied_embeddings(known.tied);
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
  Model model;
  model.set_layers(needed(row.layers, "layers"));
  model.set_hidden(needed(row.hidden, "hidden"));
  model.set_heads(needed(row.heads, "heads"));
  model.set_feed_forward(needed(row.ffn, "ffn"));
  model.set_vocabulary(needed(row.vocab, "vocab"));
  model.set_gated(needed(row.gated_mlp, "gated_mlp") == 1);
  if (known.head_size > 0) {
    model.set_head_size(known.head_size);
  } else if (model.hidden() % model.heads() != 0) {
    throw Refusal{
        fmt::format("heads = {} does not divide hidden = {}", model.heads(), model.hidden())};
  }
  take_attention(row, model, assumed);
  take_experts(row, known, model, assumed);
  try {
    resolve(model, {}, "model");
    fill_defaults(model);
    take_tables(row, known, model, assumed);
  } catch (const Error& error) {
    throw Refusal{error.message()};
  }
  return model;
}

}  // namespace orrery

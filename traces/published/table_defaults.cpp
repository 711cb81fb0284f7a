#include "traces/published/table_defaults.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/workload/framework.hpp"
#include "traces/workload/model.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kSequence = 8192;
constexpr double kTokens = 4.0 * 1024 * 1024;  ///< tokens of a step
constexpr double kMemory = 80e9;               ///< memory of a usual training GPU
constexpr double kSplitFrom = 10e9;            ///< parameters from which matrices are split
constexpr std::uint32_t kUsualNode = 8;

/// Defaults of one row.
class Defaults {
 public:
  Defaults(TableRow& row, const std::vector<std::string_view>& absent)
      : row_(row), absent_(absent) {}

  void take() {
    take_model();
    text("gpu", row_.gpu, "H100");
    count("seq_len", row_.seq_len, [] { return kSequence; });
    text("precision", row_.precision, "bf16");
    text("framework", row_.framework, "nemo");
    take_layout();
    count("gbs", row_.gbs, [this] { return batch(); });
    read_graphs();
  }

 private:
  bool is_absent(std::string_view column) const {
    return std::find(absent_.begin(), absent_.end(), column) != absent_.end();
  }
  void text(std::string_view column, std::string& cell, const char* usual) {
    if (!is_absent(column)) return;
    cell = usual;
    row_.defaulted.push_back(fmt::format("{} {}", column, usual));
  }
  template <class Find>
  void count(std::string_view column, TableRow::Count& cell, Find find) {
    if (!is_absent(column)) return;
    cell = find();
    row_.defaulted.push_back(fmt::format("{} {}", column, *cell));
  }
  /// Sets a value from the catalogue, which is no assumption.
  void known(std::string_view column, TableRow::Count& cell, std::uint32_t value) const {
    if (is_absent(column)) cell = value;
  }
  void take_model();
  void take_layout();
  void read_graphs();
  double parameters() const;
  std::uint32_t sizes() const;
  std::uint32_t tensor() const;
  std::uint32_t pipeline() const;
  std::uint32_t batch() const;
  std::uint32_t replicas() const {
    const std::uint32_t each = row_.tp.value_or(1) * row_.pp.value_or(1) * row_.cp.value_or(1);
    return row_.dp.value_or(std::max(1u, row_.n_gpus.value_or(1) / std::max(1u, each)));
  }

  TableRow& row_;
  const std::vector<std::string_view>& absent_;
};

void Defaults::take_model() {
  const std::vector<std::string> names = model_names();
  if (std::find(names.begin(), names.end(), row_.model) == names.end()) {
    count("gated_mlp", row_.gated_mlp, [] { return 1u; });
    return;
  }
  Model model;
  model.set_preset(row_.model);
  resolve(model, {}, "model");
  fill_defaults(model);
  known("layers", row_.layers, model.layers());
  known("hidden", row_.hidden, model.hidden());
  known("heads", row_.heads, model.heads());
  known("ffn", row_.ffn, model.feed_forward());
  known("gated_mlp", row_.gated_mlp, model.gated() ? 1 : 0);
  known("vocab", row_.vocab, model.vocabulary());
  if (is_absent("kv_heads")) {
    row_.kv_heads = model.has_latent_attention() ? "MLA" : std::to_string(model.kv_heads());
  }
  if (is_absent("n_params_b")) row_.n_params_b = parameter_count(model) / 1e9;
  if (!model.has_experts()) return;
  known("moe_experts", row_.moe_experts, model.experts().count());
  known("moe_topk", row_.moe_topk, model.experts().top_k());
}

/// Returns the parameters of a dense model with the row's shape; the row's own size takes
/// precedence.
double Defaults::parameters() const {
  if (row_.n_params_b) return *row_.n_params_b * 1e9;
  const double hidden = row_.hidden.value_or(0), layers = row_.layers.value_or(0);
  return layers * hidden * (4 * hidden + 3.0 * row_.ffn.value_or(0)) +
         2 * hidden * row_.vocab.value_or(0);
}

/// Returns the GPUs of the given parallel sizes; without sizes, the smallest number of GPUs whose
/// memory is at most 60% full of weights, gradients and optimizer state.
std::uint32_t Defaults::sizes() const {
  const double given = double{1} * row_.tp.value_or(1) * row_.pp.value_or(1) *
                       row_.cp.value_or(1) * row_.dp.value_or(1);
  if (given > 1 && given <= 131072) return static_cast<std::uint32_t>(given);
  std::uint32_t gpus = kUsualNode;
  while (gpus < 65536 && 16 * parameters() > 0.6 * kMemory * gpus) gpus *= 2;
  return gpus;
}

/// Returns the number of GPUs of a node that split the matrices of a large model, as many as the
/// heads allow; 1 for a small model.
std::uint32_t Defaults::tensor() const {
  if (parameters() < kSplitFrom) return 1;
  const std::uint32_t node = row_.gpus_per_node.value_or(kUsualNode);
  const std::uint32_t most = std::gcd(std::gcd(node, row_.n_gpus.value_or(1)), kUsualNode);
  return std::gcd(most, row_.heads.value_or(1));
}

/// Returns the smallest number of stages that leaves half of a GPU free of weights and gradients.
std::uint32_t Defaults::pipeline() const {
  const std::uint32_t tensor = std::max(1u, row_.tp.value_or(1) * row_.cp.value_or(1));
  const std::uint32_t groups = row_.n_gpus.value_or(1) / tensor;
  std::uint32_t stages = 1;
  while (groups % (2 * stages) == 0 && 2 * stages <= row_.layers.value_or(1) &&
         8 * parameters() / tensor / stages > kMemory / 2) {
    stages *= 2;
  }
  return stages;
}

void Defaults::take_layout() {
  count("n_gpus", row_.n_gpus, [this] { return sizes(); });
  count("tp", row_.tp, [this] { return tensor(); });
  count("pp", row_.pp, [this] { return pipeline(); });
  if (!row_.moe_experts) return;
  count("ep", row_.ep, [this] { return std::gcd(*row_.moe_experts, replicas()); });
}

/// Returns the sequences of four million tokens, rounded to whole micro-batches of all replicas.
std::uint32_t Defaults::batch() const {
  const std::uint64_t share = std::uint64_t{replicas()} * row_.mbs.value_or(1);
  const double sequences = kTokens / std::max(1u, row_.seq_len.value_or(kSequence));
  const double shares = std::max(1.0, std::round(sequences / static_cast<double>(share)));
  return static_cast<std::uint32_t>(std::min(1e8, shares * static_cast<double>(share)));
}

/// Sets `compile` to 1 if graphs of a whole iteration leave the host no kernels to launch
/// (Job.compiled). Graphs of parts of a layer change nothing.
void Defaults::read_graphs() {
  const std::string graphs = lower_case(row_.graphs);
  if (graphs.empty() || graphs == "none" || graphs == "partial") return;
  if (graphs != "full") {
    row_.problems.push_back(
        fmt::format("graphs is '{}', expected none, partial or full", shown(row_.graphs)));
  } else if (row_.compile.empty()) {
    row_.compile = "1";
  }
}

}  // namespace

void take_defaults(TableRow& row, const std::vector<std::string_view>& absent) {
  Defaults(row, absent).take();
}

}  // namespace orrery

#include "traces/published/published_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/published/table_defaults.hpp"

namespace orrery {
namespace {

/// Column: target of its cell, range of its numbers, and whether it is required.
struct Column {
  std::string_view name;
  std::variant<std::string TableRow::*, TableRow::Count TableRow::*,
               std::optional<double> TableRow::*>
      cell;
  bool required = true;
  double least = 1, most = 1e9;
};

constexpr bool kOptional = false;

using R = TableRow;

constexpr auto kColumns = std::to_array<Column>({
    {"id", &R::id, kOptional},
    {"model", &R::model},
    {"n_params_b", &R::n_params_b, kOptional, 1e-6, 1e6},
    {"layers", &R::layers, kOptional, 1, 10000},
    {"hidden", &R::hidden, kOptional, 1, 1e6},
    {"heads", &R::heads, kOptional, 1, 10000},
    {"kv_heads", &R::kv_heads, kOptional},
    {"ffn", &R::ffn, kOptional, 1, 1e7},
    {"gated_mlp", &R::gated_mlp, kOptional, 0, 1},
    {"vocab", &R::vocab, kOptional, 1, 1e8},
    {"seq_len", &R::seq_len, kOptional, 1, 1e8},
    {"moe_experts", &R::moe_experts, kOptional, 2, 1e5},
    {"moe_topk", &R::moe_topk, kOptional, 1, 1000},
    {"gpu", &R::gpu, kOptional},
    {"gpu_mem_gb", &R::gpu_mem_gb, kOptional, 1, 1e4},
    {"n_gpus", &R::n_gpus, kOptional, 1, 131072},
    {"gpus_per_node", &R::gpus_per_node, kOptional, 1, 128},
    {"nvlink", &R::nvlink, kOptional},
    {"nics_per_node", &R::nics_per_node, kOptional, 1, 128},
    {"nic_gbps", &R::nic_gbps, kOptional},
    {"fabric", &R::fabric, kOptional},
    {"tp", &R::tp, kOptional, 1, 131072},
    {"pp", &R::pp, kOptional, 1, 10000},
    {"dp", &R::dp, kOptional, 1, 131072},
    {"cp", &R::cp, kOptional, 1, 131072},
    {"context_kind", &R::context_kind, kOptional},
    {"ep", &R::ep, kOptional, 1, 131072},
    {"vpp", &R::vpp, kOptional, 1, 10000},
    {"seq_parallel", &R::seq_parallel, kOptional, 0, 1},
    {"dp_shard", &R::dp_shard, kOptional},
    {"precision", &R::precision, kOptional},
    {"mbs", &R::mbs, kOptional, 1, 1e6},
    {"gbs", &R::gbs, kOptional, 1, 1e8},
    {"recompute", &R::recompute, kOptional},
    {"attention", &R::attention, kOptional},
    {"framework", &R::framework, kOptional},
    {"overlap", &R::overlap, kOptional},
    {"grad_accum", &R::grad_accum, kOptional, 1, 1e8},
    {"expert_tensor", &R::expert_tensor, kOptional, 1, 131072},
    {"optimizer", &R::optimizer, kOptional},
    {"optimizer_bytes", &R::optimizer_bytes, kOptional, 0, 64},
    {"gradient_bytes", &R::gradient_bytes, kOptional, 1, 8},
    {"accumulation_bytes", &R::accumulation_bytes, kOptional, 1, 8},
    {"offload", &R::offload, kOptional},
    {"compile", &R::compile, kOptional},
    {"graphs", &R::graphs, kOptional},
    {"head_size", &R::head_size, kOptional, 1, 100000},
    {"window", &R::window, kOptional, 1, 1e8},
    {"window_layers", &R::window_layers, kOptional, 0, 10000},
    {"window_every", &R::window_every, kOptional, 0, 10000},
    {"latent", &R::latent, kOptional},
    {"dense_layers", &R::dense_layers, kOptional, 0, 10000},
    {"expert_every", &R::expert_every, kOptional, 1, 10000},
    {"dense_ffn", &R::dense_ffn, kOptional, 1, 1e7},
    {"shared_experts", &R::shared_experts, kOptional, 0, 1000},
    {"capacity", &R::capacity, kOptional, 0.1, 1000},
    {"padded", &R::padded, kOptional, 0, 1},
    {"dispatch", &R::dispatch, kOptional},
    {"balance", &R::balance, kOptional},
    {"adapter_rank", &R::adapter_rank, kOptional, 0, 100000},
    {"loss", &R::loss, kOptional},
});

/// Columns about the source of a row and the results of the run.
constexpr std::array<std::string_view, 37> kNotOfTheRun = {
    "source_key", "source", "location", "url", "verified", "from_memory", "arch_source",
    "net_source", "iter_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "tflops_per_gpu",
    "tflops_kind", "mfu_pct", "hfu_pct", "iter_time_derived_s", "derived_from", "check", "usable",
    "grade", "split", "notes", "note", "family", "duplicate_of", "outcome", "peak_mem_gb",
    "peak_mem_kind", "mem_kind", "licence", "license", "clean", "status", "reason", "measured",
    "step_time_s", "comment"};

bool is_of_the_run(std::string_view name) {
  return std::find(kNotOfTheRun.begin(), kNotOfTheRun.end(), name) == kNotOfTheRun.end();
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

/// Returns the finite number in a text, written 128 or 128.0; nothing for other texts.
std::optional<double> number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Reader of one cell into its member of the row.
struct Reader {
  const Column& column;
  std::string_view text;
  TableRow& row;

  void problem(std::string_view kind) const {
    row.problems.push_back(fmt::format("{} is '{}', no {} from {} to {}", column.name,
                                       shown(text), kind, column.least, column.most));
  }
  bool in_range(std::optional<double> value) const {
    return value && *value >= column.least && *value <= column.most;
  }

  void operator()(std::string TableRow::*cell) const { row.*cell = text; }
  void operator()(std::optional<double> TableRow::*cell) const {
    row.*cell = std::nullopt;
    if (text.empty()) return;
    const std::optional<double> value = number(text);
    if (!in_range(value)) return problem("number");
    row.*cell = value;
  }
  void operator()(TableRow::Count TableRow::*cell) const {
    row.*cell = std::nullopt;
    if (text.empty()) return;
    const std::optional<double> value = number(text);
    if (!in_range(value) || *value != std::floor(*value)) return problem("whole number");
    row.*cell = static_cast<std::uint32_t>(*value);
  }
};

}  // namespace

PublishedTable::PublishedTable(const std::string& path, std::string_view text)
    : reader_(path, text) {
  if (!reader_.next_row(fields_)) {
    throw Error(SourcePlace{.file = path, .line_text = ""},
                "is empty: a table of runs begins with a header");
  }
  width_ = fields_.size();
  for (const std::string_view field : fields_) {
    const std::string name(trimmed(field));
    const auto known = [&](const Column& column) { return column.name == name; };
    if (name.empty() || !is_of_the_run(name)) continue;
    if (std::none_of(kColumns.begin(), kColumns.end(), known)) unread_.push_back(name);
  }
  std::vector<std::string_view> missing, optional;
  for (const Column& column : kColumns) {
    std::optional<std::size_t>& place = places_.emplace_back();
    for (std::size_t i = 0; i < width_; ++i) {
      if (trimmed(fields_[i]) != column.name) continue;
      if (place)
        reader_.fail_at_field(i, fmt::format("column '{}' is in the header twice", column.name));
      place = i;
    }
    if (!column.required) optional.push_back(column.name);
    if (place) continue;
    absent_.push_back(column.name);
    if (column.required) missing.push_back(column.name);
  }
  if (missing.empty()) return;
  reader_.fail_row(fmt::format("expected one run a row under a header with certain columns, got "
                               "none named {}; those may be left out: {}",
                               fmt::join(missing, ", "), fmt::join(optional, ", ")));
}

bool PublishedTable::next(TableRow& row) {
  do {
    if (!reader_.next_row(fields_)) return false;
  } while (reader_.is_blank());
  if (fields_.size() != width_) {
    reader_.fail_row(fmt::format("this row has {} fields, the header has {}", fields_.size(),
                                 width_));
  }
  row = {};
  row.unread = unread_;
  row.line = reader_.line();
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    if (!places_[i]) continue;
    const Column& column = kColumns[i];
    std::visit(Reader{column, trimmed(cell(i)), row}, column.cell);
  }
  take_defaults(row, absent_);
  if (row.id.empty()) row.id = fmt::format("line {}", row.line);
  return true;
}

TableRow table_row(const std::vector<std::pair<std::string, std::string>>& cells, int number) {
  TableRow row;
  row.line = number;
  std::vector<std::string_view> absent;
  for (const Column& column : kColumns) {
    const auto found = std::find_if(cells.begin(), cells.end(),
                                    [&](const auto& cell) { return cell.first == column.name; });
    if (found == cells.end()) {
      absent.push_back(column.name);
    } else {
      std::visit(Reader{column, trimmed(found->second), row}, column.cell);
    }
  }
  for (const auto& [name, text] : cells) {
    const auto known = [&](const Column& column) { return column.name == name; };
    const bool read = std::any_of(kColumns.begin(), kColumns.end(), known);
    if (!read && is_of_the_run(name)) row.unread.push_back(name);
  }
  if (row.model.empty()) row.problems.emplace_back("'model' is missing");
  take_defaults(row, absent);
  if (row.id.empty()) row.id = fmt::format("row {}", number);
  return row;
}

}  // namespace orrery

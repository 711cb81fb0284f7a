// Reader of tables of published training runs: one row per run, with its model, machine, layout and
// software in the publisher's words. Columns that describe the run are read, columns with its
// results or its source are ignored, and any other column is reported as unread. Called by `orrery
// predict` and Python. One thread per table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/files/csv.hpp"

namespace orrery {

/// Row of a table. An empty cell is an absent number or an empty text.
struct TableRow {
  using Count = std::optional<std::uint32_t>;
  int line = 0;  ///< line in the file, from 1
  std::string id, model, gpu, kv_heads, nvlink, nic_gbps, fabric, dp_shard, precision, recompute,
      attention, framework, overlap, optimizer, offload, compile, latent, balance, graphs,
      context_kind, dispatch, loss;
  std::optional<double> n_params_b, gpu_mem_gb, optimizer_bytes, capacity;
  Count layers, hidden, heads, ffn, gated_mlp, vocab, seq_len, moe_experts, moe_topk;
  Count head_size, window, window_layers, window_every, dense_layers, dense_ffn, shared_experts;
  Count expert_every, padded;
  Count adapter_rank, n_gpus, gpus_per_node, nics_per_node;
  Count tp, pp, dp, cp, ep, vpp, seq_parallel, mbs, gbs;
  Count grad_accum, expert_tensor, gradient_bytes, accumulation_bytes;
  std::vector<std::string> problems;  ///< cells with malformed numbers
  std::vector<std::string> unread;    ///< unknown columns of the table
  std::vector<std::string> defaulted;  ///< for example "tp 8": values for missing columns
};

/// Returns a row from cells by the names of their columns. `number` names a row without an id.
/// Invalid cells are in `problems`; never throws for them.
TableRow table_row(const std::vector<std::pair<std::string, std::string>>& cells, int number);

/// Reader of a table, row by row.
class PublishedTable {
 public:
  /// Reads the header. `path` is for messages; both arguments must outlive the table. Throws
  /// bad_input with the place: an empty text, a missing or duplicate column.
  PublishedTable(const std::string& path, std::string_view text);

  /// Reads the next row that is not blank, and sets its defaults; invalid cells are in `problems`.
  /// Returns false at the end, with `row` unchanged. A row without an id gets "line N". Throws
  /// bad_input with the place if the row has more or fewer fields than the header, or misplaced
  /// quotes.
  bool next(TableRow& row);

 private:
  std::string_view cell(std::size_t column) const { return fields_[*places_[column]]; }

  CsvReader reader_;
  std::vector<std::string_view> fields_;
  std::size_t width_ = 0;
  std::vector<std::optional<std::size_t>> places_;  ///< indexed by known column: its index
  std::vector<std::string_view> absent_;            ///< known columns that are missing
  std::vector<std::string> unread_;
};

}  // namespace orrery

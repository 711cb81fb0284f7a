// Tables of published training runs: one row per run, its model, machine, layout and software in
// the words of whoever published it. Reads the columns that describe the run and none that say
// how it went or where that was seen; any other column is named as not read. Called by
// published_run.hpp. One thread per table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/files/csv.hpp"

namespace orrery {

/// One row. An empty cell is an absent number or an empty text.
struct TableRow {
  using Count = std::optional<std::uint32_t>;
  int line = 0;  ///< of the file, from 1
  std::string id, model, gpu, kv_heads, nvlink, nic_gbps, fabric, dp_shard, precision, recompute,
      attention, framework, overlap, optimizer, offload, compile;
  std::optional<double> n_params_b, gpu_mem_gb, optimizer_bytes;
  Count layers, hidden, heads, ffn, gated_mlp, vocab, seq_len, moe_experts, moe_topk;
  Count n_gpus, gpus_per_node, nics_per_node;
  Count tp, pp, dp, cp, ep, vpp, seq_parallel, mbs, gbs;
  Count grad_accum, expert_tensor, gradient_bytes, accumulation_bytes;
  std::vector<std::string> problems;  ///< cells that hold no such number
  std::vector<std::string> unread;    ///< columns of the table that say nothing known to us
  std::vector<std::string> defaulted;  ///< "tp 8": what stands for columns that are not there
};

/// A row by itself: cells by the names of their columns; `number` names it where it has no id.
TableRow table_row(const std::vector<std::pair<std::string, std::string>>& cells, int number);

class PublishedTable {
 public:
  /// `path` is for messages; both are borrowed. Throws bad_input with the place: an empty text, a
  /// header that lacks a column or has one twice.
  PublishedTable(const std::string& path, std::string_view text);

  /// The next row; false at the end. Throws bad_input with the place if the row has more or fewer
  /// fields than the header, or wrong quotes.
  bool next(TableRow& row);

 private:
  std::string_view cell(std::size_t column) const { return fields_[*places_[column]]; }

  CsvReader reader_;
  std::vector<std::string_view> fields_;
  std::size_t width_ = 0;
  std::vector<std::optional<std::size_t>> places_;  ///< by column known to us: where it stands
  std::vector<std::string_view> absent_;            ///< columns that are not there
  std::vector<std::string> unread_;
};

}  // namespace orrery

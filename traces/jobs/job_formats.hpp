// Formats of job logs that are tables: the columns that identify a format, and the interpretation
// of a row. A format is one function and one line of the table in job_formats.cpp. Used by
// traces/jobs/job_log. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/names.hpp"
#include "traces/files/csv.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery {

/// Formats of job logs, as TraceQuality.format names them: Orrery's own columns (canonical), the
/// formats in JSON, and the tables, in the order of job_formats().
enum class JobLogFormat : std::uint8_t {
  canonical,
  philly_json,
  kubernetes,
  batsim,
  slurm_sacct,
  philly_csv,
  acme,
  helios,
  openb,
  gfs,
  dlrm,
  muri,
  tiresias,
  elasticflow,
  sia,
  gavel,
  shockwave,
  swf
};
constexpr std::array<std::string_view, 18> names_of(JobLogFormat) {
  return {"canonical",  "philly-json", "kubernetes", "batsim", "slurm-sacct", "philly-csv",
          "acme",       "helios",      "openb",      "gfs",    "dlrm",        "muri",
          "tiresias",   "elasticflow", "sia",        "gavel",  "shockwave",   "swf"};
}

/// Exception of the readers of rows: a row contains an impossible value.
struct RowProblem {
  std::string column, reason;  ///< column of the value, and the reason for a message
};

/// Row of a log, accessed by column names. Valid until the next row is read; all arguments must
/// outlive it.
class LogRow {
 public:
  /// `node_gpus`: GPUs of each node, for a log that names nodes but no GPUs; 0: not known.
  LogRow(const CsvReader& reader, const std::vector<std::string>& columns,
         const std::vector<std::string_view>& fields, std::uint32_t node_gpus = 0)
      : reader_(reader), columns_(columns), fields_(fields), node_gpus_(node_gpus) {}

  /// Returns true if the log has the column.
  bool has(std::string_view column) const { return index_of(column).has_value(); }
  /// Returns the text of a column; empty if the column is missing or contains a word for an absent
  /// value (None, nan, Unknown, ...).
  std::string_view text(std::string_view column) const;
  std::string string(std::string_view column) const { return std::string(text(column)); }
  /// Returns the number in a column; nothing if absent. Throws a RowProblem for a text that is no
  /// number or a negative number; bad_input for one above `most`.
  std::optional<double> number(std::string_view column, double most) const;
  /// Returns the number in seconds, rounded down. Throws a RowProblem if absent, no number or
  /// negative, bad_input above 100 years.
  std::int64_t seconds(std::string_view column) const;
  /// Returns the instant in seconds since 1970, in the notations of parse_instant(); nothing if
  /// absent. Throws a RowProblem for any other text.
  std::optional<std::int64_t> instant(std::string_view column) const;
  /// Returns a number of GPUs, rounded down. Throws a RowProblem if absent, no number or negative,
  /// bad_input above 2^20.
  std::uint32_t gpus(std::string_view column) const;
  /// Returns the value. Throws a RowProblem if it is absent.
  template <class Value>
  Value required_value(const std::optional<Value>& value, std::string_view column) const {
    if (value) return *value;
    throw RowProblem{std::string(column), std::string(column) + " is missing"};
  }
  /// Returns the number of GPUs of a node, if the reader's options give one; 0: unknown.
  std::uint32_t node_gpus() const { return node_gpus_; }
  int line() const { return reader_.line(); }  ///< line in which the row begins, from 1
  /// Returns the index of a column; nothing if the log lacks it.
  std::optional<std::size_t> index_of(std::string_view column) const;

 private:
  const CsvReader& reader_;
  const std::vector<std::string>& columns_;
  const std::vector<std::string_view>& fields_;
  const std::uint32_t node_gpus_;
};

/// Format of a job log.
struct JobFormat {
  JobLogFormat name{};
  Separator mark = Separator::comma;
  /// Columns that identify the format, separated by blanks; for a format without a header, all
  /// columns in their order.
  std::string_view told_by;
  bool header = true;
  /// Returns the job of a row; nothing for a row that is skipped. Times may begin at any instant,
  /// because the importer moves the first job to 0. Throws a RowProblem, and bad_input for a number
  /// that is impossibly large.
  std::optional<TraceJob> (*read)(const LogRow& row) = nullptr;
  std::string_view note = {};  ///< remark on the interpretation
  /// Where a file with all columns comes from, for messages.
  std::string_view origin = {};
  /// Returns the kinds of GPUs that the job of a row may have, separated by bars; empty: any. Null
  /// if the format names no kinds.
  std::string (*kinds)(const LogRow& row) = nullptr;
};

/// Returns all formats. A format comes before all formats whose columns are a part of its own.
std::span<const JobFormat> job_formats();

/// Format that a table nearly has, and the identifying columns that the table lacks.
struct NearFormat {
  const JobFormat* format = nullptr;
  std::vector<std::string> missing;
};
/// Returns the format with a header of which a table has the largest part of the identifying
/// columns, the first of several; nothing if it has less than half of them.
///
/// For example, the columns job_id, num_gpu, submit_time and duration are those of Tiresias without
/// iterations.
std::optional<NearFormat> nearest_format(const std::vector<std::string>& columns, Separator mark);

/// Returns the first format whose identifying columns all exist in `columns`; null if none matches.
/// A format without a header matches by the number of its columns.
const JobFormat* format_with(const std::vector<std::string>& columns, Separator mark, bool header);

}  // namespace orrery

// The formats of job logs that are tables: which columns tell one, and what a row says. A format is
// one function and one line of the table in job_formats.cpp. Used by traces/jobs/job_log. One
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/files/csv.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery {

/// A row says something impossible.
struct RowProblem {
  std::string column, reason;
};

/// A row by the names of its columns.
class LogRow {
 public:
  LogRow(const CsvReader& reader, const std::vector<std::string>& columns,
         const std::vector<std::string_view>& fields)
      : reader_(reader), columns_(columns), fields_(fields) {}

  bool has(std::string_view column) const { return index_of(column).has_value(); }
  /// Empty where there is no such column, or a word for nothing (None, nan, Unknown, ...).
  std::string_view text(std::string_view column) const;
  std::string string(std::string_view column) const { return std::string(text(column)); }
  /// Nothing where there is nothing. Throws a RowProblem for what is no number or is negative;
  /// bad_input for one above `most`.
  std::optional<double> number(std::string_view column, double most) const;
  /// The same, cut off to seconds; a RowProblem where there is nothing.
  std::int64_t seconds(std::string_view column) const;
  /// Seconds since 1970; nothing where there is nothing. Throws a RowProblem.
  std::optional<std::int64_t> instant(std::string_view column) const;
  std::uint32_t gpus(std::string_view column) const;
  /// Throws a RowProblem if nothing is there.
  template <class Value>
  Value need(const std::optional<Value>& value, std::string_view column) const {
    if (value) return *value;
    throw RowProblem{std::string(column), std::string(column) + " is missing"};
  }
  int line() const { return reader_.line(); }
  std::optional<std::size_t> index_of(std::string_view column) const;

 private:
  const CsvReader& reader_;
  const std::vector<std::string>& columns_;
  const std::vector<std::string_view>& fields_;
};

struct JobFormat {
  std::string_view name;
  Separator mark = Separator::comma;
  /// Columns that tell it, separated by blanks; without a header in the file: all it has.
  std::string_view told_by;
  bool header = true;
  /// Nothing for a row that is passed over. Times since any instant: the first job will be at 0.
  std::optional<TraceJob> (*read)(const LogRow& row) = nullptr;
  std::string_view note = {};  ///< how it is understood
};

/// More special ones first.
std::span<const JobFormat> job_formats();

/// The first of them whose columns are all there; null if there is none.
const JobFormat* format_with(const std::vector<std::string>& columns, Separator mark, bool header);

}  // namespace orrery

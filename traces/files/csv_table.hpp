// Reader of a CSV whose header names the columns, in any order and with additional columns. Called
// by the readers of Orrery's tables and of other tools' tables. One thread per table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/files/csv.hpp"

namespace orrery {

/// Reader of a table by column names.
class CsvTable {
 public:
  /// Reads the header; next() reads the first row. The third argument names the contents, for
  /// messages. `path` and `text` must outlive the table. Throws bad_input for an empty text or if
  /// one of the columns is missing.
  CsvTable(const std::string& path, std::string_view text, const char* what,
           const std::vector<std::string_view>& needed);
  /// Reads the next row that is not blank. Returns false at the end, where no row can be read.
  /// Throws bad_input for a row with more or fewer fields than the header.
  bool next();
  /// Returns the text of a column of the row, valid until the next row is read; empty if the table
  /// lacks the column. Call after next() returned true, as the methods below.
  std::string_view text(std::string_view column) const;
  /// Returns the number in a column, which must exist. Throws bad_input unless the field is a whole
  /// number of at most `most`.
  std::uint64_t number(std::string_view column, std::uint64_t most) const;
  /// Throws bad_input at a column of the row; at its first column if the table lacks the column.
  [[noreturn]] void fail_at(std::string_view column, const std::string& message) const {
    reader_.fail_at_field(at(column).value_or(0), message);
  }

 private:
  std::optional<std::size_t> at(std::string_view column) const;

  CsvReader reader_;
  std::vector<std::string> header_;
  std::vector<std::string_view> fields_;
};

}  // namespace orrery

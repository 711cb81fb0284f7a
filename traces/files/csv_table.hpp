// A CSV whose header names its columns, in any order and with others beside them. Called by the
// readers of tables of ours and of other tools. One thread per table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/files/csv.hpp"

namespace orrery {

class CsvTable {
 public:
  /// `what` it holds, for messages. `path` and `text` outlive it. Throws bad_input where one of the
  /// columns is missing.
  CsvTable(const std::string& path, std::string_view text, const char* what,
           const std::vector<std::string_view>& needed);
  /// The next row that is not blank; false at the end. Throws bad_input on a torn one.
  bool next();
  /// Empty where there is no such column.
  std::string_view text(std::string_view column) const;
  /// Throws bad_input for what is no whole number of at most `most`.
  std::uint64_t number(std::string_view column, std::uint64_t most) const;
  [[noreturn]] void fail(std::string_view column, const std::string& message) const {
    reader_.fail(at(column).value_or(0), message);
  }

 private:
  std::optional<std::size_t> at(std::string_view column) const;

  CsvReader reader_;
  std::vector<std::string> header_;
  std::vector<std::string_view> fields_;
};

}  // namespace orrery

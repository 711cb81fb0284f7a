#include "traces/files/csv_table.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"

namespace orrery {

CsvTable::CsvTable(const std::string& path, std::string_view text, const char* what,
                   const std::vector<std::string_view>& needed)
    : reader_(path, text) {
  if (!reader_.next_row(fields_)) {
    throw Error(SourcePlace{.file = path, .line_text = ""},
                fmt::format("is empty: {} begin with a header", what));
  }
  header_.assign(fields_.begin(), fields_.end());
  for (const std::string_view column : needed) {
    if (at(column)) continue;
    reader_.fail_row(fmt::format("expected {} with the columns {}, got none named {}", what,
                                 fmt::join(needed, ", "), column));
  }
}

bool CsvTable::next() {
  do {
    if (!reader_.next_row(fields_)) return false;
  } while (reader_.is_blank());
  if (fields_.size() == header_.size()) return true;
  reader_.fail_row(
      fmt::format("this line has {} fields, the header has {}", fields_.size(), header_.size()));
}

std::string_view CsvTable::text(std::string_view column) const {
  const auto index = at(column);
  return index ? fields_[*index] : std::string_view{};
}

std::uint64_t CsvTable::number(std::string_view column, std::uint64_t most) const {
  const std::string_view field = text(column);
  std::uint64_t value = 0;
  const char* const end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, value);
  if (error == std::errc{} && stop == end && value <= most) return value;
  reader_.fail_at_field(
      *at(column), fmt::format("{} must be a whole number of at most {}, not '{}'", column, most,
                               shown(std::string(field))));
}

std::optional<std::size_t> CsvTable::at(std::string_view column) const {
  const auto found = std::find(header_.begin(), header_.end(), column);
  if (found == header_.end()) return {};
  return static_cast<std::size_t>(found - header_.begin());
}

}  // namespace orrery

#include "cli/shared/columns.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/shared/help.hpp"

namespace orrery::cli {
namespace {

/// One part of a layout.
struct LayoutPart {
  const char* name;
  const char* prefix;  ///< words before the value where it stands without the column
  std::string (*value)(const LayoutChoice&);
  const char* plain;         ///< value that needs no mention
  bool is_division = false;  ///< part of the division of the GPUs, which each row shows
};

template <std::uint32_t LayoutChoice::*part>
std::string number_of(const LayoutChoice& choice) {
  return std::to_string(choice.*part);
}

std::string shard_of(const LayoutChoice& choice) {
  constexpr std::array<const char*, 4> kShardings{"-", "ZeRO-1", "ZeRO-2", "FSDP"};
  return kShardings.at(static_cast<std::size_t>(choice.shard));
}

std::string recompute_of(const LayoutChoice& choice) {
  return std::string(name_of(choice.recompute));
}

constexpr std::array kParts{
    LayoutPart{"tensor", "tensor ", number_of<&LayoutChoice::tensor>, "1", true},
    LayoutPart{"context", "context ", number_of<&LayoutChoice::context>, "1", true},
    LayoutPart{"pipeline", "pipeline ", number_of<&LayoutChoice::pipeline>, "1", true},
    LayoutPart{"data", "data ", number_of<&LayoutChoice::data>, "1", true},
    LayoutPart{"expert", "expert ", number_of<&LayoutChoice::expert>, "1"},
    LayoutPart{"micro", "micro-batch ", number_of<&LayoutChoice::micro_batch>, ""},
    LayoutPart{"chunks", "chunks ", number_of<&LayoutChoice::chunks>, "1"},
    LayoutPart{"sharded", "", shard_of, "-"},
    LayoutPart{"recompute", "recompute ", recompute_of, "none"},
};

}  // namespace

bool differs(const Column& column) {
  return std::any_of(column.cells.begin(), column.cells.end(),
                     [&](const std::string& cell) { return cell != column.cells.front(); });
}

std::vector<Column> layout_columns(const std::vector<LayoutChoice>& rows,
                                   std::vector<std::string>& same) {
  std::vector<Column> columns;
  for (const LayoutPart& part : kParts) {
    Column column{part.name, {}, 0};
    for (const LayoutChoice& row : rows) column.cells.push_back(part.value(row));
    const std::string first = rows.empty() ? part.plain : column.cells.front();
    if (differs(column) || (part.is_division && first != part.plain)) {
      columns.push_back(std::move(column));
    } else if (first != part.plain) {
      same.push_back(part.prefix + first);
    }
  }
  return columns;
}

std::string table_text(const std::vector<Column>& columns, const std::vector<std::string>& same) {
  const std::size_t rows = columns.empty() ? 0 : columns.front().cells.size();
  std::vector<std::string> lines{"   "};
  for (std::size_t row = 1; row <= rows; ++row) lines.push_back(fmt::format("{:>3}", row));
  for (const Column& column : columns) {
    std::size_t width = std::max(column.width, column.name.size());
    for (const std::string& cell : column.cells) width = std::max(width, cell.size());
    lines[0] += fmt::format("  {:>{}}", column.name, width);
    for (std::size_t row = 0; row < rows; ++row) {
      lines[row + 1] += fmt::format("  {:>{}}", column.cells.at(row), width);
    }
  }
  std::string text = fmt::format("{}\n", fmt::join(lines, "\n"));
  if (same.empty()) return text;
  const std::string shared = fmt::format("in each row: {}", fmt::join(same, ", "));
  return text + wrapped(shared, 0, kTextColumns) + '\n';
}

}  // namespace orrery::cli

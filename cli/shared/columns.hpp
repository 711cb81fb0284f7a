// Tables and sentences of answers in lines of at most 100 characters: a column for each part that
// differs between the rows, and one line with the parts that all rows share. Called by `orrery
// layouts` and `orrery plan`. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "traces/workload/layout_choices.hpp"

namespace orrery::cli {

constexpr std::size_t kTextColumns = 100;  ///< characters of the longest line

/// Column of a table, for example "tensor" with the cells "4" and "8".
struct Column {
  std::string name;
  std::vector<std::string> cells;  ///< one for each row
  std::size_t width = 0;           ///< least number of characters
};

/// Returns true if not all cells of a column are equal.
bool differs(const Column& column);

/// Returns the columns of the parts in which these layouts differ, and of the division of the GPUs.
/// Appends the words of all other parts that need a mention to `same`, for example "micro-batch 1".
std::vector<Column> layout_columns(const std::vector<LayoutChoice>& rows,
                                   std::vector<std::string>& same);

/// Returns a header and the rows, numbered from 1 and aligned at the right; then a line with the
/// words of `same`, if it has any. All columns have as many cells.
std::string table_text(const std::vector<Column>& columns, const std::vector<std::string>& same);

}  // namespace orrery::cli

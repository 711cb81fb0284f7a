// Defaults for columns that a table of runs lacks: sizes of a model of the catalogue, usual GPUs
// and software, and a layout that should fit into the memory. All defaults except sizes of the
// catalogue are listed in the row's `defaulted`. A column that exists but is empty in a row has an
// unknown value, and no default replaces it. Called by traces/published/published_table. Pure;
// thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "traces/published/published_table.hpp"

namespace orrery {

/// Sets the defaults of the columns in `absent`, and `compile` by `graphs`. An unknown word in
/// `graphs` is a problem of the row.
void take_defaults(TableRow& row, const std::vector<std::string_view>& absent);

}  // namespace orrery

// What is taken for columns that a table of runs does not have: sizes of a model of the catalogue,
// usual GPUs and software, and a layout that ought to fit. Each is named in the row's `defaulted`.
// A column that is there and empty is another matter: it is not known, and no default stands for
// it.
// Called by traces/published/published_table. Pure; thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "traces/published/published_table.hpp"

namespace orrery {

void take_defaults(TableRow& row, const std::vector<std::string_view>& absent);

}  // namespace orrery

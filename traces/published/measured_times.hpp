// Measured step times of a table of training runs, which the reader of the runs ignores. Called by
// `orrery calibrate --runs` and `orrery plan --measured`. Pure function. Seconds.
#pragma once

#include <map>
#include <string>

namespace orrery {

/// Returns the values above 0 of the column `iter_time_s` by the line of their row; other cells
/// are left out. Throws bad_input with the place for a table without this column. `path` is for
/// messages.
std::map<int, double> measured_times(const std::string& path, const std::string& text);

}  // namespace orrery

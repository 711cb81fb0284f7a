// Lower median of many numbers. Used by the summaries of ranks and by policies that compare ranks
// with one another. Pure functions; thread-safe.
#pragma once

#include <span>

namespace orrery {

/// Returns the lower median of the values, which must not be NaN; 0 without values. For example,
/// the lower median of 4, 1, 3 and 2 is 2. Of many values, only those near the median are sorted.
double lower_median(std::span<const double> values);

}  // namespace orrery

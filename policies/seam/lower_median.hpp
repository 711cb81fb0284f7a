// Lower median of many numbers. Used by the summaries of ranks and by policies that compare ranks
// with one another. Pure functions; thread-safe.
#pragma once

#include <span>

namespace orrery {

/// Range from `low` to below `high` in which a median probably lies, such as around the median of
/// the same ranks a moment ago. A range without values between is no guess. A guess decides how
/// much is computed, never the result.
struct MedianGuess {
  double low = 0, high = 0;
};

/// Returns the lower median of the values, which must not be NaN; 0 without values. For example,
/// the lower median of 4, 1, 3 and 2 is 2. Of many values, only those near the median are sorted.
double lower_median(std::span<const double> values);
/// Returns the same median. If the median lies in the range of `guess`, one pass over the values
/// finds the median. Of many values, moves `guess` to the result.
double lower_median(std::span<const double> values, MedianGuess& guess);

}  // namespace orrery

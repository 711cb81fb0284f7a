// Paired comparison of runs with equal seeds (common random numbers). Pure functions; thread-safe.
// The mean m and the standard deviation s of n differences give the interval m +- t(n - 1) s /
// sqrt(n), where t is the quantile of Student's distribution. For example, the differences 1, 2 and
// 3 have the mean 2 and, at 95%, the half width 4.3027 x 1 / sqrt(3) = 2.484.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery::cli {

/// Mean of differences, and its confidence interval.
struct PairedDifference {
  double mean = 0, low = 0, high = 0;
};

/// Returns the quantile of Student's distribution. `share`: above one half and below 1. `freedom`:
/// degrees of freedom, at least 1.
double student_quantile(double share, std::uint32_t freedom);

/// Returns the mean of `values` - `reference`, pair by pair, and its 95% interval. Both have the
/// same number of values, at least two.
PairedDifference paired_difference(const std::vector<double>& values,
                                   const std::vector<double>& reference);

}  // namespace orrery::cli

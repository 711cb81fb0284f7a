// Weighted durations of one kind of jobs, for sim/forecast/duration_model and
// sim/forecast/possible_durations: unknown ones, and those of the jobs that still run. Pure
// functions of their arguments, thread-safe; seconds.
#pragma once

#include <utility>
#include <vector>

namespace orrery::sim {

/// Durations with their weights.
using WeightedDurations = std::vector<std::pair<double, double>>;

/// Returns the unknown duration at the fraction `u` in (0, 1): log-logistic around a median, as
/// wide as earlier medians were wrong (mean absolute logarithm `error`, which is the shape times ln
/// 4). After errors of many orders of magnitude, limits the duration to 1 s and to 1e9 s. For
/// example, the fraction 0.5 is the median.
double unknown_duration(double median_s, double error, double u);

/// Gives the weights of jobs that still run to the longer durations (estimator of Kaplan and
/// Meier): the jobs that have ended first are the short ones. Beyond all durations the rest is as
/// long as the elapsed time. Sorts `weighted` by duration. `running`: elapsed seconds with their
/// weights, ascending.
void spread_running(const WeightedDurations& running, WeightedDurations& weighted);

}  // namespace orrery::sim

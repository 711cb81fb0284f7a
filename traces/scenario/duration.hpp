// Durations of failures as distributions: fixed, log-normal or empirical (DurationDistribution in
// scenario.proto). Used by FailureStream and by the check of a scenario. Pure functions;
// thread-safe. Nanoseconds. For example, {median: 4 min, p90: 40 min} has a sigma of
// ln(10) / 1.2816 = 1.797, and draws 4 min x exp(1.797 x normal).
#pragma once

#include <string>

#include "core/ids.hpp"
#include "core/random.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Returns a violated condition of the distribution as a message; empty if there is none.
std::string duration_problem(const DurationDistribution& of);

/// Returns the standard deviation of the logarithm of a log-normal distribution, from sigma or p90.
/// Call for a checked distribution with a median.
double log_deviation(const DurationDistribution& of);

/// Returns a duration drawn from a checked distribution, at most 9e18 ns. A fixed one draws no
/// random number.
Nanos draw_duration(const DurationDistribution& of, Rng& rng);

}  // namespace orrery

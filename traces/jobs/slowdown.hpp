// Bounded slowdown of jobs (D. Feitelson and L. Rudolph, "Metrics and benchmarking for parallel job
// scheduling", 1998). Used by sim/replay and sim/forecast. Pure.
#pragma once

#include <algorithm>

#include "core/ids.hpp"

namespace orrery {

/// Returns the completion time of a job over its duration, which counts as at least 60 s. For
/// example, a job of 10 s that ends 90 s after its submission has 1.5.
inline double bounded_slowdown(Nanos completion, Nanos duration) {
  constexpr double kShortest_s = 60;
  return to_seconds(completion) / std::max(to_seconds(duration), kShortest_s);
}

}  // namespace orrery

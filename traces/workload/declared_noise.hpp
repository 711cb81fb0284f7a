// Gradient noise scale that a scenario declares for its job (arXiv:1812.06162). Thread-safe.
#pragma once

#include <optional>

#include "core/ids.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Declared gradient noise scale, which grows linearly with the step. Plain value. For example,
/// {.at_start = 30, .growth = 2} is 38 sequences in step 4.
struct DeclaredNoise {
  double at_start = 0;  ///< sequences at step 0; 0: not declared
  double growth = 0;    ///< sequences by which each step adds to the noise scale

  /// Returns the noise scale of `step` in sequences; nothing if the job declares none.
  std::optional<double> noise_scale(Step step) const {
    if (at_start == 0) return {};
    return at_start + growth * static_cast<double>(step);
  }
};

/// Returns the declaration of Job.noise_scale and Job.noise_growth.
inline DeclaredNoise declared_noise(const Job& job) {
  return {.at_start = job.noise_scale(), .growth = job.noise_growth()};
}

}  // namespace orrery

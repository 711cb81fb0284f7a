// Gradient noise scale of a live run, measured from the gradients of its ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "live/control.pb.h"

namespace orrery::live {

/// Estimator of the simple noise scale tr(S) / |G|^2 (McCandlish et al., arXiv:1812.06162, appendix
/// A): two batch sizes are those of one rank, b, and of all ranks, B. With the mean square s of the
/// gradients of the ranks and the square t of the mean gradient,
///   |G|^2 = (B t - b s) / (B - b),  tr(S) = (s - t) / (1 / b - 1 / B),
/// where 1 / b is the mean of 1 / b of the ranks. Both are averaged over steps, with weights that
/// fall by a tenth in each step, because the value of one step is mostly noise. Single-threaded.
class NoiseScale {
 public:
  /// Adds the reports of a committed step of `all` samples. Without effect unless at least two
  /// ranks report squares, each of fewer samples than `all`, and for a gradient of zeros.
  void add_step(std::span<const StepReport> reports, std::uint64_t all);
  /// Returns the noise scale in sequences; nothing before the first step and as long as the
  /// averages are not positive.
  std::optional<double> value() const;

 private:
  double square_ = 0, trace_ = 0;  ///< weighted sums of |G|^2 and tr(S)
};

/// Returns the square of the rank's mean gradient over that of the mean of all ranks, minus 1;
/// nothing without samples of the rank or without squares. `all`: samples of the step.
std::optional<double> gradient_variance(const StepReport& report, std::uint64_t all);

}  // namespace orrery::live

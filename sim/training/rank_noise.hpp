// Noise of compute times: each rank's time in each step is normal around its nominal time, and a
// replica, whose ranks wait for one another, takes as long as its slowest rank. The maximum is
// drawn first, from its own distribution; the ranks' values are drawn below it, and only on
// request. A step therefore costs one draw for each replica, at any size. A draw depends on
// seed, step and place alone. Used by sim/training/telemetry. Immutable; thread-safe.
#pragma once

#include <cstdint>

#include "core/ids.hpp"

namespace orrery::sim {

/// Random factors on compute times. For example, the slowest of 8 ranks with cv = 0.01 is drawn as
/// the p^(1/8) quantile, on average 1.4% above nominal.
class RankNoise {
 public:
  /// Constructs the noise. `cv`: standard deviation of a rank's time over its nominal time.
  /// `ranks`: of a replica, >= 1.
  RankNoise(double cv, std::uint32_t ranks, std::uint64_t seed)
      : cv_(cv), ranks_(ranks), seed_(seed) {}

  /// Returns true if no noise is drawn.
  bool none() const { return cv_ == 0; }
  /// Returns the factor of the slowest rank of a replica in a step; at least 0.1.
  double slowest(Step step, std::uint32_t replica) const;
  /// Returns the factor of one rank of the replica, counted from 0 and below the number of
  /// ranks; at least 0.1. One of the ranks has the factor slowest(), the others no larger ones.
  double of_rank(Step step, std::uint32_t replica, std::uint32_t rank) const;

 private:
  double factor(double normal) const;
  double share_below(Step step, std::uint32_t replica) const;

  double cv_;
  std::uint32_t ranks_;
  std::uint64_t seed_;
};

/// Returns the standard normal quantile of `p`, 0 < p < 1, to 16 digits (Wichura 1988, algorithm AS
/// 241).
double normal_quantile(double p);

/// Returns a standard normal number that depends on the three arguments alone.
double normal_at(std::uint64_t seed, std::uint64_t a, std::uint64_t b);

}  // namespace orrery::sim

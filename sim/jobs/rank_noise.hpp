// The noise of compute times: each rank's in each step is normal about its nominal time, and a
// replica, whose ranks wait for one another, takes as long as its slowest. That maximum is drawn
// first, from its own distribution; the ranks' are drawn below it, and only where somebody looks.
// So a step costs one draw a replica, whatever its size. A draw depends on the seed, the step and
// the place alone. Used by sim/jobs/telemetry. Immutable; thread-safe.
#pragma once

#include <cstdint>

#include "core/ids.hpp"

namespace orrery::sim {

class RankNoise {
 public:
  /// `cv`: standard deviation of a rank's time over its nominal one. `ranks`: of a replica, >= 1.
  RankNoise(double cv, std::uint32_t ranks, std::uint64_t seed)
      : cv_(cv), ranks_(ranks), seed_(seed) {}

  bool none() const { return cv_ == 0; }
  /// How many times as long as nominal the slowest rank of a replica computes in a step; at least
  /// a tenth.
  double slowest(Step step, std::uint32_t replica) const;
  /// The same of one of its ranks, counted from 0; one of them is the slowest.
  double of_rank(Step step, std::uint32_t replica, std::uint32_t rank) const;

 private:
  double factor(double normal) const;
  double share_below(Step step, std::uint32_t replica) const;

  double cv_;
  std::uint32_t ranks_;
  std::uint64_t seed_;
};

/// The standard normal value below which a share `p` of all lies, 0 < p < 1, to 16 digits
/// (Wichura 1988, algorithm AS 241).
double normal_quantile(double p);

/// A standard normal number that depends on the three alone.
double normal_at(std::uint64_t seed, std::uint64_t a, std::uint64_t b);

}  // namespace orrery::sim

// Clock of slurmctld beside the clock of this machine. Used by live/slurm/slurm_cluster. One
// thread; nanoseconds since 1970.
#pragma once

#include <cstdint>
#include <string>

#include "core/ids.hpp"

namespace orrery::live {

/// Difference between the clock of slurmctld and this machine's, from instants that slurmctld shows
/// in whole seconds. Clocks that agree within a second have no difference.
///
/// For example, slurmctld answers 130 s between 100.2 s and 100.4 s of this machine's clock: it is
/// 30 s ahead.
class SlurmClock {
 public:
  /// Compares the instant `shown_s` that slurmctld showed between `before` and `after` of this
  /// machine's clock; 0 for an unknown instant. Returns true if the difference has changed.
  bool compare_clocks(std::int64_t shown_s, Nanos before, Nanos after);
  /// Returns the time by which the clock of slurmctld is ahead of this machine's.
  Nanos ahead() const { return ahead_s_ * kNanosPerSecond; }
  /// Returns the difference as a sentence for the operator.
  std::string describe_difference() const;

 private:
  std::int64_t ahead_s_ = 0;
};

}  // namespace orrery::live

// The time of a log on this machine's clock: so many of its seconds in each of ours. Thread-safe;
// nanoseconds of the log. Used by live/jobs.
#pragma once

#include <chrono>

#include "core/ids.hpp"

namespace orrery::live {

class TraceClock {
 public:
  using Real = std::chrono::steady_clock;

  /// It is `begin` now. `speed` is more than 0.
  TraceClock(double speed, Nanos begin);

  Nanos now() const;
  /// From now until it is `at`; 0 if it has been.
  std::chrono::nanoseconds until(Nanos at) const;
  /// Of the log's time, in ours.
  std::chrono::nanoseconds real(Nanos span) const;
  void sleep_until(Nanos at) const;

 private:
  double speed_;
  Nanos begin_;
  Real::time_point begun_;
};

}  // namespace orrery::live

// Clock of a log on this machine: a constant number of log seconds for each real second.
// Thread-safe; nanoseconds of the log. Used by live/jobs.
#pragma once

#include <chrono>

#include "core/ids.hpp"

namespace orrery::live {

/// Clock that reads the log's time.
class TraceClock {
 public:
  using Real = std::chrono::steady_clock;

  /// Starts the clock at `begin`; one real second is `speed` seconds of the log. Throws an internal
  /// Error unless speed > 0.
  TraceClock(double speed, Nanos begin);

  /// Returns the current time of the log, rounded down.
  Nanos now() const;
  /// Returns the real time until the clock reads `at`; 0 if that instant is past. See real() for
  /// the limit.
  std::chrono::nanoseconds until(Nanos at) const;
  /// Returns the real duration of `span`, rounded up; at most 4e18 ns, about 127 years. Negative
  /// for a negative `span`.
  std::chrono::nanoseconds real(Nanos span) const;
  /// Blocks until the clock reads `at`; returns at once if that instant is past.
  void sleep_until(Nanos at) const;

 private:
  double speed_;
  Nanos begin_;
  Real::time_point begun_;
};

}  // namespace orrery::live

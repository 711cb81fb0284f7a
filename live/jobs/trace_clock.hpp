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

  /// Starts the clock at `begin`. Throws an internal Error unless speed > 0.
  TraceClock(double speed, Nanos begin);

  Nanos now() const;
  /// Returns the real time until the clock reads `at`; 0 if that has passed.
  std::chrono::nanoseconds until(Nanos at) const;
  /// Returns the real duration of `span`.
  std::chrono::nanoseconds real(Nanos span) const;
  void sleep_until(Nanos at) const;

 private:
  double speed_;
  Nanos begin_;
  Real::time_point begun_;
};

}  // namespace orrery::live

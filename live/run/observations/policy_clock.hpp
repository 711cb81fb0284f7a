// Clock of policies and reports.
#pragma once

#include <optional>
#include <utility>

#include "core/ids.hpp"
#include "live/machine/host_clock.hpp"

namespace orrery::live {

/// Clock that starts with the run's first step, and that a successor of the controller continues.
/// Nanoseconds since the start. Single-threaded.
class PolicyClock {
 public:
  /// Constructs a clock that reads 0 until start(). `started`: recorded start of the run (see
  /// started()); nothing if the run has not started.
  explicit PolicyClock(std::optional<Nanos> started = {})
      : start_(std::chrono::nanoseconds(started.value_or(0))), has_start_(started.has_value()) {}
  /// Lets the clock run: from the recorded start, or, without one, from 0 now. No effect on a
  /// running clock.
  void start() {
    if (!std::exchange(has_start_, true)) start_ = Clock::now();
    runs_ = true;
  }

  /// Returns the time since the start; 0 before start().
  Nanos now() const { return runs_ ? since(start_) : 0; }
  /// Returns the time since the start at `moment`, negative for an earlier moment. Call only after
  /// start() or with a recorded start.
  Nanos at(Clock::time_point moment) const {
    return (moment - start_) / std::chrono::nanoseconds(1);
  }
  /// Returns the moment at which the clock reads `at`. Call only after start() or with a recorded
  /// start.
  Clock::time_point moment(Nanos at) const { return start_ + std::chrono::nanoseconds(at); }
  /// Returns the start on the clock of this machine, in nanoseconds; 0 before start() without a
  /// recorded start.
  Nanos started() const { return start_.time_since_epoch() / std::chrono::nanoseconds(1); }

 private:
  Clock::time_point start_;
  bool has_start_;
  bool runs_ = false;
};

}  // namespace orrery::live

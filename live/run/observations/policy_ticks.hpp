// Periodic calls of the policies.
#pragma once

#include "core/ids.hpp"

namespace orrery::live {

/// Timer for ticks: calls of the policies without an event, at the period that the policies need,
/// while a step is in flight, unless the policies have asked for no calls and the step takes no
/// longer than before. Used by the live backend; single-threaded. Instants are times of the policy
/// clock.
class PolicyTicks {
 public:
  /// Starts the timer: the next tick is due at the first multiple of `period` after `now`. For
  /// example, with a period of 5 s and now = 12 s the next tick is due at 15 s. A period of 0 means
  /// no ticks, as before the call.
  void begin(Nanos period, Nanos now) {
    period_ = period;
    next_ = period > 0 ? (now / period + 1) * period : kNever;
  }
  /// Sets whether the policies need no ticks while the run continues as before; false at first, and
  /// unchanged by begin().
  void set_resting(bool at_rest) { at_rest_ = at_rest; }
  /// Returns the instant of the next tick; kNever: none.
  Nanos next() const { return next_; }

  /// Advances the timer to `now`. Returns true if a tick is due; missed ticks count as one.
  /// `stands`: no step is in flight. `as_before`: the current step does not take longer than the
  /// previous ones. A tick is dropped while `stands` is true, and while `as_before` is true after
  /// set_resting(true).
  bool is_due(Nanos now, bool stands, bool as_before) {
    const bool due = now >= next_ && !stands && !(at_rest_ && as_before);
    while (now >= next_) next_ += period_;
    return due;
  }

 private:
  Nanos period_ = 0, next_ = kNever;
  bool at_rest_ = false;
};

}  // namespace orrery::live

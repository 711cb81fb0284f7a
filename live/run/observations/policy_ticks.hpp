// When policies are asked though nothing has happened: at the period that they want, while a step
// is under way, unless they have said that they rest. Called by the live backend; one thread.
// Instants are the policy clock's.
#pragma once

#include "core/ids.hpp"

namespace orrery::live {

class PolicyTicks {
 public:
  /// The next one is due at the first multiple of `period` after `now`; 0: none ever.
  void begin(Nanos period, Nanos now) {
    period_ = period;
    next_ = period > 0 ? (now / period + 1) * period : kNever;
  }
  /// The policies' last word: whether they want to be left alone while all goes on as before.
  void rest(bool at_rest) { at_rest_ = at_rest; }
  /// kNever: none.
  Nanos next() const { return next_; }

  /// Whether they are asked now; those that have passed count as asked. `stands`: no step is under
  /// way, and nobody is asked. `as_before`: the step under way does not last longer than others.
  bool due(Nanos now, bool stands, bool as_before) {
    const bool due = now >= next_ && !stands && !(at_rest_ && as_before);
    while (now >= next_) next_ += period_;
    return due;
  }

 private:
  Nanos period_ = 0, next_ = kNever;
  bool at_rest_ = false;
};

}  // namespace orrery::live

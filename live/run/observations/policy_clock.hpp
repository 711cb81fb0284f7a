// The clock that policies and the report read: it starts with the first step, and another
// controller of the same run reads the same. Nanoseconds since the start; one thread.
#pragma once

#include "core/ids.hpp"
#include "live/machine/host_clock.hpp"

namespace orrery::live {

class PolicyClock {
 public:
  /// The first step begins.
  void start() {
    start_ = Clock::now();
    runs_ = true;
  }
  /// An earlier controller started it (see started()). It reads 0 until go_on(): what that one has
  /// seen is shown first, and carries its own instants.
  void restore(Nanos started) { start_ = Clock::time_point(std::chrono::nanoseconds(started)); }
  void go_on() { runs_ = true; }

  /// 0 before the start.
  Nanos now() const { return runs_ ? since(start_) : 0; }
  /// What it reads at that moment.
  Nanos at(Clock::time_point moment) const {
    return (moment - start_) / std::chrono::nanoseconds(1);
  }
  /// The moment at which it reads so.
  Clock::time_point moment(Nanos at) const { return start_ + std::chrono::nanoseconds(at); }
  /// Its start, on the clock of this machine.
  Nanos started() const { return start_.time_since_epoch() / std::chrono::nanoseconds(1); }

 private:
  Clock::time_point start_;
  bool runs_ = false;
};

}  // namespace orrery::live

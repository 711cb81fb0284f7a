// Instants at which SimGrid's clock must stop: SimGrid runs from event to event of its own and does
// not know our calendar. Owned by sim/engine/simgrid_shares; one thread. Seconds of that clock.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <simgrid/kernel/Timer.hpp>

namespace orrery::sim {

/// Timers on SimGrid's clock.
class SimGridStops {
 public:
  /// Constructs an empty set. SimGrid's loop calls `wake` at the instant of wake_now(), after the
  /// call.
  explicit SimGridStops(std::function<void()> wake) : wake_(std::move(wake)) {}

  /// Returns the clock in seconds. Call once SimGrid's engine exists.
  static double now();
  /// Stops the clock at `date` at the latest, and notifies the listeners of the clock. If the clock
  /// stops earlier already, nothing is added: call again at that stop.
  void at(double date);
  /// Requests a call of `wake` at this instant; repeated requests before that call count once.
  void wake_now();
  /// Removes the timers of instants before now() + `precision` seconds, passed ones too.
  void advance_past_now(double precision);
  /// Removes all dates; a requested call of `wake` remains.
  void clear();

 private:
  using Timer = simgrid::kernel::timer::Timer;

  const std::function<void()> wake_;
  /// the earliest last; SimGrid frees passed timers
  std::vector<std::pair<double, Timer*>> stops_;
  bool wake_due_ = false;
};

}  // namespace orrery::sim

// Instants at which SimGrid's clock stops for us: it runs from event to event of its own, and what
// we wait for is none to it. Owned by sim/engine/simgrid_engine; one thread. Seconds of that clock.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <simgrid/kernel/Timer.hpp>

namespace orrery::sim {

class SimGridStops {
 public:
  /// `wake` is called after wake_now(), from SimGrid's own loop.
  explicit SimGridStops(std::function<void()> wake) : wake_(std::move(wake)) {}

  static double now();
  /// The clock stops at `date` at the latest, and tells whoever listens to it that time has passed.
  void at(double date);
  /// At this instant, once, however often it is asked for.
  void wake_now();
  /// Those of instants within `precision` from now are over.
  void pass(double precision);
  void clear();

 private:
  using Timer = simgrid::kernel::timer::Timer;

  const std::function<void()> wake_;
  std::vector<std::pair<double, Timer*>> stops_;  ///< the earliest last; SimGrid frees those passed
  bool wake_due_ = false;
};

}  // namespace orrery::sim

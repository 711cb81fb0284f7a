// Instants of a simulated run at which something is done once, before anything that happens then or
// later: whoever lets time pass asks first, also in the midst of steps that are advanced at once.
// Owned by the backend, which its jobs share it with. One thread.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "core/units.hpp"

namespace orrery::sim {

class Milestones {
 public:
  /// Those of one instant are reached in the order in which they were set.
  void set(Nanos at, std::function<void()> what) { ahead_.emplace(at, std::move(what)); }
  /// Time is about to pass to `next`. True if there was one: what was done may have brought nearer
  /// stops.
  bool reach(Nanos next) {
    bool reached = false;
    while (!ahead_.empty() && ahead_.begin()->first <= next) {
      const std::function<void()> what = std::move(ahead_.begin()->second);
      ahead_.erase(ahead_.begin());
      what();
      reached = true;
    }
    return reached;
  }

 private:
  std::multimap<Nanos, std::function<void()>> ahead_;
};

}  // namespace orrery::sim

// Instants of a simulated run at which a callback runs once, before anything that happens at that
// instant or later. Code that advances time calls reach_milestones() first, also inside steps that
// are advanced at once. Owned by the backend and shared with its jobs. One thread.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "core/units.hpp"

namespace orrery::sim {

/// Ordered callbacks at instants of simulated time.
class Milestones {
 public:
  /// Adds a callback at the instant `at`. Callbacks of one instant run in the order in which they
  /// were added.
  void add_milestone(Nanos at, std::function<void()> what) { ahead_.emplace(at, std::move(what)); }
  /// Runs the callbacks at instants up to `next` (inclusive), the instant to which time is about to
  /// advance, in the order of their instants, each once, also callbacks that are added meanwhile,
  /// and removes them. Returns true if any ran: callbacks may have created events before `next`. An
  /// exception of a callback passes through; that callback does not run again.
  bool reach_milestones(Nanos next) {
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

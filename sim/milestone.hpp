// An instant of a simulated run at which something is done once, before anything that happens then
// or later: whoever lets time pass asks first, also in the midst of steps that are advanced at
// once. Owned by the backend, which its jobs share it with. One thread.
#pragma once

#include <functional>
#include <utility>

#include "core/units.hpp"

namespace orrery {

class Milestone {
 public:
  void set(Nanos at, std::function<void()> what) {
    at_ = at;
    what_ = std::move(what);
  }
  /// Time is about to pass to `next`. True if this was the moment: what was done may have brought
  /// nearer stops.
  bool reach(Nanos next) {
    if (!what_ || next < at_) return false;
    std::exchange(what_, {})();
    return true;
  }

 private:
  Nanos at_ = 0;
  std::function<void()> what_;
};

}  // namespace orrery

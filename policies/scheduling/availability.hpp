// How many GPUs are expected to be free from now on: a step function of time that reservations are
// taken from. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace orrery {

class Availability {
 public:
  /// So many are free now, and nothing else is known.
  void reset(Nanos now, std::uint32_t free);
  /// So many more from `at` on; called in order of time.
  void release(Nanos at, std::uint32_t gpus);
  /// The first instant from `from` on at which `gpus` are free for `duration`; kNever if none.
  Nanos earliest(std::uint32_t gpus, Nanos duration, Nanos from) const;
  /// Whether they are from `from` on, an instant from the first one on.
  bool free_for(std::uint32_t gpus, Nanos duration, Nanos from) const;
  /// They are not free from `begin` to `end`.
  void reserve(Nanos begin, Nanos end, std::uint32_t gpus);

 private:
  struct Step {
    Nanos at = 0;
    std::uint32_t free = 0;  ///< from then to the next step
  };
  /// The step that holds at `at`; the first one, before all.
  std::size_t step_at(Nanos at) const;
  std::size_t split(Nanos at);

  std::vector<Step> steps_;  ///< ascending; the last one holds for ever
};

}  // namespace orrery

// Expected number of free GPUs over time: a step function from which reservations are taken. One
// thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/ids.hpp"

namespace orrery {

/// Step function of free GPUs. For example, with 2 free GPUs now and 6 more from 10 s on,
/// earliest_start() of 4 GPUs is 10 s.
///
/// Reservations only decrease the free GPUs, so a job that needs at least as many GPUs for at least
/// as long as an earlier one cannot start before the instant that was found for the earlier one:
/// the search begins there. For example, after 10 s for 4 GPUs and 60 s, that of 8 GPUs and 90 s
/// begins at 10 s.
class Availability {
 public:
  /// Sets the function to `free` GPUs from `now` on, which drops all releases and reservations.
  /// Call before any other method.
  void reset(Nanos now, std::uint32_t free);
  /// Adds `gpus` free GPUs from `at` on; an `at` before the newest release counts as the instant of
  /// that release. Call in order of time, before reserve().
  void release(Nanos at, std::uint32_t gpus);
  /// Returns the first instant from `from` on, and not before the instant of reset(), at which
  /// `gpus` are free for `duration`, after all reservations; kNever if none. The result of a
  /// search from the instant of reset() shortens later searches until the next reset() or
  /// release(), and never changes their results.
  Nanos earliest_start(std::uint32_t gpus, Nanos duration, Nanos from);
  /// Returns true if `gpus` are free for `duration` from `from` on; `from` must not precede the
  /// first instant.
  bool is_free_for(std::uint32_t gpus, Nanos duration, Nanos from) const;
  /// Reserves `gpus` from `begin` to `end`; nothing if `begin` >= `end`. The GPUs must be free
  /// then, and `begin` must not precede the instant of reset() (not checked).
  void reserve(Nanos begin, Nanos end, std::uint32_t gpus);

 private:
  struct Step {
    Nanos at = 0;
    std::uint32_t free = 0;  ///< free GPUs from `at` to the next step
  };
  /// Found start of a job of this duration.
  struct Found {
    Nanos duration = 0, start = 0;
  };
  /// Found starts of jobs of one size, both fields ascending: a start that a shorter job has, too,
  /// is left out.
  using FoundStarts = std::pair<std::uint32_t, std::vector<Found>>;

  Nanos first_stretch(std::uint32_t gpus, Nanos duration, Nanos from) const;
  Nanos known_bound(std::uint32_t gpus, Nanos duration) const;
  void remember_start(std::uint32_t gpus, const Found& found);
  void forget_starts();
  /// Returns the index of the step at `at`; the first step for any earlier instant.
  std::size_t step_at(Nanos at) const;
  std::size_t split_at(Nanos at);

  std::vector<Step> steps_;          ///< ascending; the last step has no end
  std::vector<FoundStarts> starts_;  ///< found starts by job size in GPUs, ascending
};

}  // namespace orrery

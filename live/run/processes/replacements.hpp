// Restart of lost ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/ids.hpp"

namespace orrery::live {

/// Queue of the ranks to restart, with exponential backoff. If the processes of a rank die before
/// they join, the next attempt starts later: pause(n) = 0 for n < 3, otherwise 0.5 s * 2^(n - 3).
/// For example, the third to eighth attempts follow after 0.5, 1, 2, 4, 8 and 16 s; after eight
/// attempts the rank is abandoned. Used by RankProcesses; single-threaded. Instants are times of
/// the caller's clock in nanoseconds.
class Replacements {
 public:
  /// Requests a restart of `rank`, which counts as an attempt; the pause counts from `now`. After
  /// the ninth request start() abandons the rank. Call only while is_requested() is false.
  void request_restart(std::uint32_t rank, Nanos now);
  /// Returns true if a restart of `rank` is requested and was neither started, cancelled nor
  /// abandoned since.
  bool is_requested(std::uint32_t rank) const { return wanted_.contains(rank); }
  /// Cancels the requested restart of `rank`, if any, and forgets its attempts.
  void cancel_restart(std::uint32_t rank) { record_member(rank); }
  /// Records that `rank` is a member, which resets its attempts and cancels a requested restart.
  void record_member(std::uint32_t rank);
  /// Starts the due replacements with `start`, which returns false while a start is impossible: the
  /// next call tries again. Returns the ranks that are abandoned, ascending, or none; their
  /// attempts begin anew with a later request.
  std::vector<std::uint32_t> start(Nanos now, const std::function<bool(std::uint32_t rank)>& start);

 private:
  std::map<std::uint32_t, Nanos> wanted_;  ///< Earliest start, by rank.
  std::map<std::uint32_t, int> attempts_;  ///< Replacements requested since the rank last joined.
};

}  // namespace orrery::live

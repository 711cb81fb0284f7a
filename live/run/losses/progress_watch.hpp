// Detection of stalled ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "live/control.pb.h"

namespace orrery::live {

/// Monitor of the ranks' progress. A rank may send heartbeats for ever while its training thread
/// hangs: from the progress in the heartbeats, this class names the ranks that are behind once no
/// rank has made progress for a limit. Single-threaded. Instants are times of the policy clock.
class ProgressWatch {
 public:
  /// Records the progress in a heartbeat of process `life` of `rank`. Restarts the rank's timer if
  /// the process is the rank's first or another one, or if the progress has changed (epoch, links,
  /// steps, gradient sum, complete micro-batches); a fraction of a micro-batch is no progress.
  void record_heartbeat(std::uint32_t rank, std::uint32_t life, const Heartbeat& beat, Nanos now);
  /// Forgets the progress of all ranks; the durations of steps stay.
  void forget_ranks() { ranks_.clear(); }
  /// Records the duration of a committed step.
  void step_done(Nanos took);
  /// Returns the time without progress after which ranks count as stalled, in nanoseconds:
  /// max(least, 10 * median of the last five step durations, 10 * micro_batch). The median is 0
  /// without steps, and the lower of two in the middle, so that a single step that was long because
  /// all ranks were stopped in it has no effect beside other steps. For example, with least = 60 s,
  /// steps of 2 s and micro-batches of 8 s of the slowest rank the limit is 80 s.
  Nanos limit(Nanos least, Nanos micro_batch) const;
  /// Restarts the timers of all ranks that have sent a heartbeat, because the missing progress had
  /// a known reason.
  void restart_timers(Nanos now);

  /// Returns the members that are behind the others, if no member has made progress for `limit`;
  /// otherwise, or if a member has sent no heartbeat yet, returns none. Returns all members if none
  /// is behind, or if several of those behind are in the exchange: the cause lies between them,
  /// although some members may have finished the exchange. `shares`: micro-batches of the current
  /// step, one number for each of `members`.
  std::vector<std::uint32_t> standing(const std::vector<std::uint32_t>& members,
                                      const std::vector<std::uint64_t>& shares, Nanos limit,
                                      Nanos now) const;
  /// Returns step and micro-batches of the step that the rank reported last; zeros if the rank has
  /// reported none.
  std::pair<std::uint64_t, std::uint64_t> at(std::uint32_t rank) const;
  /// Returns the progress of the rank as text, for example "in step 7, after 2 micro-batches".
  std::string where(std::uint32_t rank) const;

 private:
  /// Progress of a rank: its epoch, the links, the applied steps, the gradient sum.
  using Stand = std::tuple<std::uint64_t, bool, std::uint64_t, bool>;
  /// Newest progress of one rank.
  struct Rank {
    std::uint32_t life = 0;
    std::uint64_t step = 0, micro_batches = 0;
    Stand stand{};
    /// Instant of the newest progress.
    Nanos moved = 0;
  };
  std::map<std::uint32_t, Rank> ranks_;
  std::deque<Nanos> took_;  ///< Durations of the newest steps.
};

}  // namespace orrery::live

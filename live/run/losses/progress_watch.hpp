// Who stands still: a rank may send heartbeats for ever while the thread that trains hangs. Told
// what every rank says of itself, it names those that are behind once nothing has moved for long.
// One thread. Instants are the policy clock's.
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

class ProgressWatch {
 public:
  void note(std::uint32_t rank, std::uint32_t life, const Heartbeat& beat, Nanos now);
  void step_done(Nanos took);
  /// How long nothing may move: `least`, but ten times what steps take, and a micro-batch of the
  /// slowest rank. The median of the newest steps: one that took long because all were stopped in
  /// it says nothing of the next.
  Nanos limit(Nanos least, Nanos micro_batch) const;
  /// Everything starts afresh: what stood still did so for a reason.
  void forgive(Nanos now);

  /// Those of `members` that are behind the others, when none of them has moved for `limit`. All of
  /// them where none is behind, or several are in the exchange: what they wait for is between them,
  /// though some may have got all of it. `shares`: of each member, the micro-batches of the step
  /// under way.
  std::vector<std::uint32_t> standing(const std::vector<std::uint32_t>& members,
                                      const std::vector<std::uint64_t>& shares, Nanos limit,
                                      Nanos now) const;
  /// Step and micro-batches of it.
  std::pair<std::uint64_t, std::uint64_t> at(std::uint32_t rank) const;
  /// "in step 7, after 2 micro-batches".
  std::string where(std::uint32_t rank) const;

 private:
  /// How far it is: the epoch that it has entered and linked up, updates, sums.
  using Stand = std::tuple<std::uint64_t, bool, std::uint64_t, bool>;
  struct Rank {
    std::uint32_t life = 0;
    std::uint64_t step = 0, micro_batches = 0;
    Stand stand{};
    Nanos moved = 0;
  };
  std::map<std::uint32_t, Rank> ranks_;
  std::deque<Nanos> took_;  ///< the newest steps
};

}  // namespace orrery::live

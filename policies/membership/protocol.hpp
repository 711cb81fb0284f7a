// What the control core says: a member tells its whole state, the coordinator what is to be done
// now. Both are statements of state, not steps of a conversation: one that is lost is made up for
// by the next, one that comes twice or late is ignored. Plain values; the transport is the
// caller's. Steps count from 0; times are the caller's clock.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace orrery::membership {

/// One process of one rank; a replacement has the next `life`.
struct Seat {
  std::uint32_t rank = 0;
  std::uint32_t life = 0;
  friend auto operator<=>(const Seat&, const Seat&) = default;
};

/// Member to coordinator.
struct Status {
  Seat from;
  std::uint64_t beat = 0;   ///< grows with every status of this seat
  std::uint64_t epoch = 0;  ///< newest one entered; 0: none
  Step applied = 0;         ///< its state holds the updates of the steps before this one
  bool whole = true;        ///< false: a newcomer that needs a peer's state
  bool linked = false;      ///< with all members of `epoch`
  bool broken = false;      ///< its links of `epoch` have failed
  bool reduced = false;     ///< holds the sum of step `applied`, made in `epoch`, not yet applied
  std::uint64_t acknowledged = 0;  ///< newest proposal of `epoch` that it holds
  friend bool operator==(const Status&, const Status&) = default;
};

/// Coordinator to member.
struct Directive {
  Seat to;
  std::uint64_t epoch = 0;         ///< all earlier ones are revoked
  std::uint64_t number = 0;        ///< grows within the epoch
  Step committed = 0;              ///< steps before this one are final
  std::uint64_t committed_in = 0;  ///< epoch in which the last of them was
  /// By rank; empty until the epoch is agreed, and again once this member has linked up: those of
  /// an epoch stay the same, and would be all that grows with the square of the run.
  std::vector<Seat> members;
  std::uint32_t source = 0;    ///< rank whose state newcomers take
  bool share = false;          ///< there are newcomers
  bool work = false;           ///< on step `committed`
  std::uint64_t proposed = 0;  ///< newest decision to be acknowledged
  std::uint64_t decided = 0;   ///< newest decision that holds for step `committed`
  friend bool operator==(const Directive&, const Directive&) = default;
};

/// All that a coordinator has to remember beyond its death. It has to be durable before anything
/// that was decided later is sent.
struct Journal {
  std::uint64_t epoch = 0;
  Step committed = 0;
  std::uint64_t committed_in = 0;
  std::uint64_t decided = 0;
  friend bool operator==(const Journal&, const Journal&) = default;
};

}  // namespace orrery::membership

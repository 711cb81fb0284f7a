// Messages of the control core: a member sends its whole state, the coordinator sends the current
// orders. Both are statements of state: a lost message is replaced by the next one, a duplicate or
// late one is ignored. Plain values; the caller provides the transport. Steps count from 0; times
// are of the caller's clock.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace orrery::membership {

/// One process of one rank; a replacement process has the next `life`.
struct Seat {
  std::uint32_t rank = 0;
  std::uint32_t life = 0;
  friend auto operator<=>(const Seat&, const Seat&) = default;
};

/// Message of a member to the coordinator.
struct Status {
  Seat from;
  std::uint64_t beat = 0;   ///< increases with every status of this seat
  std::uint64_t epoch = 0;  ///< newest epoch begun; 0: none
  Step applied = 0;         ///< the state holds the updates of the steps before this one
  bool whole = true;        ///< false: a new rank that needs a peer's state
  bool linked = false;      ///< linked with all members of `epoch`
  bool broken = false;      ///< links of `epoch` have failed
  bool reduced = false;     ///< holds the sum of step `applied`, made in `epoch`, not applied yet
  std::uint64_t acknowledged = 0;  ///< newest proposal of `epoch` that the member holds
  friend bool operator==(const Status&, const Status&) = default;
};

/// Message of the coordinator to a member.
struct Directive {
  Seat to;
  std::uint64_t epoch = 0;         ///< all earlier epochs are revoked
  std::uint64_t number = 0;        ///< increases within the epoch
  Step committed = 0;              ///< steps before this one are final
  std::uint64_t committed_in = 0;  ///< epoch of the last final step
  /// Members by rank; empty until the epoch is agreed, and again once this member is linked: the
  /// members of an epoch do not change, and repeating them would cost the square of the ranks.
  std::vector<Seat> members;
  std::uint32_t source = 0;    ///< rank whose state new ranks receive
  bool share = false;          ///< true if new ranks exist
  bool work = false;           ///< true: work on step `committed`
  std::uint64_t proposed = 0;  ///< newest decision to acknowledge
  std::uint64_t decided = 0;   ///< newest decision in force in step `committed`
  friend bool operator==(const Directive&, const Directive&) = default;
};

/// State that a coordinator must remember beyond its death. It must be durable before later
/// directives are sent.
struct Journal {
  std::uint64_t epoch = 0;
  Step committed = 0;
  std::uint64_t committed_in = 0;
  std::uint64_t decided = 0;
  friend bool operator==(const Journal&, const Journal&) = default;
};

}  // namespace orrery::membership

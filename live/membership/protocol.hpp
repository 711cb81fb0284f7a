// Messages of the membership protocol between coordinator and members. A member sends its complete
// state (Status), the coordinator sends its current orders (Directive). The next message replaces a
// lost message, and a duplicate or late message is ignored. Plain values; the caller provides the
// transport. Steps count from 0.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace orrery::live::membership {

/// Identity of one process of one rank.
struct Seat {
  std::uint32_t rank = 0;
  std::uint32_t life = 0;  ///< incarnation; a replacement process has the next number
  friend auto operator<=>(const Seat&, const Seat&) = default;
};

/// Message of a member to the coordinator: the complete state of the member.
struct Status {
  Seat from;                ///< sender
  std::uint64_t beat = 0;   ///< heartbeat number; increases with every status of this process
  std::uint64_t epoch = 0;  ///< newest epoch begun; 0: none
  Step applied = 0;         ///< the parameters contain the updates of the steps before this step
  bool whole = true;        ///< false: the rank needs the training state of a peer
  bool linked = false;      ///< linked with all members of `epoch`
  bool broken = false;      ///< links of `epoch` have failed
  bool reduced = false;     ///< holds the gradient sum of step `applied` of `epoch`, unapplied
  std::uint64_t acknowledged = 0;  ///< newest decision that the member holds since `epoch` began
  friend bool operator==(const Status&, const Status&) = default;
};

/// Message of the coordinator to a member: the current orders for that member.
struct Directive {
  Seat to;                         ///< receiver
  std::uint64_t epoch = 0;         ///< all earlier epochs are revoked
  std::uint64_t number = 0;        ///< increases with every change of orders within the epoch
  Step committed = 0;              ///< number of committed steps: steps before this step are final
  std::uint64_t committed_in = 0;  ///< epoch of the newest committed step
  /// members by rank; empty until the members of the epoch are fixed, and again once this member is
  /// linked: the members of an epoch do not change, and with n ranks a repetition costs n^2 entries
  std::vector<Seat> members;
  std::uint32_t source = 0;    ///< rank whose training state ranks without state receive
  bool share = false;          ///< true if a member needs the state of `source`
  bool work = false;           ///< true: compute step `committed`
  std::uint64_t proposed = 0;  ///< newest decision to hold and to acknowledge
  std::uint64_t decided = 0;   ///< newest decision in force in step `committed`
  friend bool operator==(const Directive&, const Directive&) = default;
};

/// State with which a new coordinator continues after the loss of the previous coordinator. A
/// change must be durable before directives that depend on it are sent.
struct Journal {
  std::uint64_t epoch = 0;         ///< newest epoch
  Step committed = 0;              ///< number of committed steps
  std::uint64_t committed_in = 0;  ///< epoch of the newest committed step
  std::uint64_t decided = 0;       ///< newest agreed decision
  friend bool operator==(const Journal&, const Journal&) = default;
};

}  // namespace orrery::live::membership

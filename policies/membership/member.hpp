// Rank's end of the control core: a state machine without clock, thread or socket. Input: the
// coordinator's directives and the rank's actions; output: the rank's next task. Driven by live
// agents and the model test; the caller serialises the calls.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policies/membership/protocol.hpp"

namespace orrery::membership {

/// Next action of a rank.
struct Task {
  enum class Kind : std::uint8_t {
    none,
    apply,  ///< update the parameters with the held sum
    enter,  ///< close the links, drop the held sum, listen for links of `epoch`
    link,   ///< link with `members`; then, if `share`, new ranks receive the state of `source`
    work    ///< compute `step` and sum its gradient, without an update
  };
  Kind kind = Kind::none;
  std::uint64_t epoch = 0;
  Step step = 0;
  std::vector<Seat> members = {};
  std::uint32_t source = 0;
  bool share = false;
  std::uint64_t decided = 0;
};

/// State machine of one rank's membership.
class Member {
 public:
  /// Constructs a member whose state holds the updates of the steps before `applied`.
  explicit Member(Seat self, Step applied = 0) : self_(self) { state_.applied = applied; }

  /// Processes a directive. Returns true if it revokes the epoch: the current task must end now.
  bool on_directive(const Directive& said);
  /// Returns the current task; unchanged until it is done or a directive changes it.
  Task task() const;

  /// Records that the held sum has been applied.
  void mark_applied();
  /// Records that the rank listens for links of `epoch`.
  void mark_listening(std::uint64_t epoch);
  /// Records that the rank is linked with all members of `epoch`; ignored for a past epoch.
  void mark_linked(std::uint64_t epoch);
  /// Records that the rank holds the sum of `step`, made in `epoch`; ignored for a past epoch.
  void reduced(std::uint64_t epoch, Step step);
  /// Records that a link of `epoch` failed; ignored for a past epoch.
  void mark_broken(std::uint64_t epoch);

  /// Returns the status to send, with the next beat number.
  Status status();
  /// Returns the newest epoch of this rank.
  std::uint64_t epoch() const { return state_.epoch; }
  /// Returns true if the rank holds the state of the newest step that it knows to be final.
  bool has_whole_state() const { return state_.whole; }
  /// Returns the newest directive.
  const Directive& newest() const { return newest_; }

 private:
  bool may_apply() const;

  Seat self_;
  Status state_;
  std::uint64_t beats_ = 0;
  Directive newest_;
};

}  // namespace orrery::membership

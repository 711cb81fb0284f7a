// Member's end of the membership protocol: a state machine without clock, thread or socket. Its
// input are the coordinator's directives and the completed tasks of the rank; its output is the
// next task. Driven by live agents and by the model test. Not thread-safe: the caller serialises
// the calls.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "live/membership/protocol.hpp"

namespace orrery::live::membership {

/// Next task of a rank.
struct Task {
  /// Kind of a task.
  enum class Kind : std::uint8_t {
    none,   ///< wait for a directive
    apply,  ///< update the parameters with the held gradient sum
    enter,  ///< close the links, drop the held sum, listen for links of `epoch`
    link,   ///< link with `members`; then, if `share`, ranks without state get that of `source`
    work    ///< compute `step` and sum its gradient, without an update of the parameters
  };
  Kind kind = Kind::none;
  std::uint64_t epoch = 0;
  Step step = 0;
  std::vector<Seat> members = {};
  std::uint32_t source = 0;   ///< see Directive::source
  bool share = false;         ///< see Directive::share
  std::uint64_t decided = 0;  ///< newest decision in force in `step`
};

/// State machine of one rank's membership. For example, after a directive with a new epoch task()
/// is `enter`; after mark_listening() and a directive with members it is `link`; after
/// mark_linked() and a directive with work it is `work`; after mark_reduced() and the commit it is
/// `apply`.
class Member {
 public:
  /// Constructs the member of process `self`, whose parameters contain the updates of the steps
  /// before `applied`.
  explicit Member(Seat self, Step applied = 0) : self_(self) { state_.applied = applied; }

  /// Processes a directive. Ignores a directive for another process and an outdated directive.
  /// Returns true if the directive revokes the epoch of the previous directive, so that the current
  /// task must be abandoned; false for an ignored directive. Acknowledges the proposed decision if
  /// the rank has begun the directive's epoch.
  bool on_directive(const Directive& said);
  /// Returns the current task; `none` before the first directive, after mark_broken() until the
  /// next epoch (apart from `apply`), and while the coordinator must act. The task stays the same
  /// until its completion is recorded or a directive changes it. A held sum of a committed step is
  /// applied first, before a new epoch is begun.
  Task task() const;

  /// Records that the held sum has been applied: status().applied increases by 1 and no sum is
  /// held. Call only while the task is `apply`; throws an internal Error otherwise.
  void mark_applied();
  /// Records that the rank listens for links of `epoch`, which begins the epoch, drops the held sum
  /// and the links with their failure, and acknowledges the proposed decision. A rank that has not
  /// applied all committed steps then needs a peer's state. Ignored unless `epoch` is the epoch of
  /// the newest directive and has not been begun.
  void mark_listening(std::uint64_t epoch);
  /// Records that the rank is linked with all members of `epoch` and has the training state of all
  /// committed steps, its own or that of a peer. Ignored unless `epoch` is begun and is the epoch
  /// of the newest directive, and after mark_broken().
  void mark_linked(std::uint64_t epoch);
  /// Records that the rank holds the gradient sum of `step`, made in `epoch`. Ignored unless
  /// `epoch` is the begun epoch and `step` the next step to apply.
  void mark_reduced(std::uint64_t epoch, Step step);
  /// Records that a link of `epoch` failed: until a new epoch the only possible task is to apply a
  /// held sum. Ignored unless `epoch` is the begun epoch.
  void mark_broken(std::uint64_t epoch);

  /// Returns the status to send, with the next heartbeat number.
  Status status();
  /// Returns the epoch that this rank has begun; 0: none.
  std::uint64_t epoch() const { return state_.epoch; }
  /// Returns true if the rank has the training state of all steps that were committed when its
  /// epoch began; false from mark_listening() to mark_linked() for a rank that needs a peer's
  /// state.
  bool has_whole_state() const { return state_.whole; }
  /// Returns the newest directive, with the members of its epoch even if it does not repeat them;
  /// epoch 0 before the first.
  const Directive& newest() const { return newest_; }

 private:
  bool may_apply() const;

  Seat self_;
  Status state_;
  std::uint64_t beats_ = 0;
  Directive newest_;
};

}  // namespace orrery::live::membership

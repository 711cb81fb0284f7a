// Member's end of the membership protocol: a state machine without clock, thread or socket. Its
// input are the coordinator's directives and the completed tasks of the rank; its output is the
// next task. Driven by live agents and by the model test. Not thread-safe: the caller serialises
// the calls.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policies/membership/protocol.hpp"

namespace orrery::membership {

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
  /// Returns true if the directive revokes the current epoch, so that the current task must be
  /// abandoned.
  bool on_directive(const Directive& said);
  /// Returns the current task. The task stays the same until its completion is recorded or a
  /// directive changes it.
  Task task() const;

  /// Records that the held sum has been applied. Call only while the task is `apply`; throws an
  /// internal Error otherwise.
  void mark_applied();
  /// Records that the rank listens for links of `epoch`, which begins the epoch and drops the held
  /// sum; ignored unless `epoch` is the epoch of the newest directive and has not been begun.
  void mark_listening(std::uint64_t epoch);
  /// Records that the rank is linked with all members of `epoch` and has the training state;
  /// ignored for a past epoch and after mark_broken().
  void mark_linked(std::uint64_t epoch);
  /// Records that the rank holds the gradient sum of `step`, made in `epoch`; ignored for a past
  /// epoch or another step.
  void mark_reduced(std::uint64_t epoch, Step step);
  /// Records that a link of `epoch` failed; ignored for a past epoch.
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

}  // namespace orrery::membership

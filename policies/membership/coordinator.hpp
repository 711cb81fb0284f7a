// Controller's end of the control core: members, epoch, final steps and decisions in force. A state
// machine without clock, thread or socket: statuses in, directives out, time as an argument. Driven
// by live mode and the model test; one thread. A change of membership is a new epoch. First every
// candidate gives up the old epoch (gathering), then all link up (linking), then the members work
// on steps, one at a time. A step is final when every member of the epoch holds its sum: then each
// member can apply it, even if others die. A decision is in force, from the next step on, when
// every member has acknowledged it; a new epoch aborts a decision that is not in force.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "policies/membership/protocol.hpp"

namespace orrery::membership {

/// Everything before `epoch` is revoked.
struct Revoked { std::uint64_t epoch = 0; };
/// A process is lost. `silent`: no heartbeat within the timeout.
struct Lost { Seat seat; bool silent = false; };
/// All members have given up their work of earlier epochs.
struct Agreed { std::uint64_t epoch = 0; };
/// All members of an epoch are linked.
struct Formed { std::uint64_t epoch = 0; std::vector<Seat> members; };
/// A step is final.
struct Committed { Step step = 0; std::uint64_t epoch = 0; };
/// A decision is in force.
struct Decided { std::uint64_t number = 0; };
/// A decision was not agreed on.
struct Aborted { std::uint64_t number = 0; };
/// No present rank holds the training state; the run continues if a holder returns.
struct Stuck {};  ///< nobody who is there holds the state; goes on if one who does comes back
using Happening = std::variant<Revoked, Lost, Agreed, Formed, Committed, Decided, Aborted, Stuck>;

/// State machine of the membership and the steps of one run. For example, with 3 ranks and a silent
/// rank 1, check_heartbeats() reports Revoked and Lost; after the statuses of ranks 0 and 2 follow
/// Agreed, Formed and the repetition of the step.
class Coordinator {
 public:
  /// Parameters of a coordinator.
  struct Options {
    std::uint32_t ranks = 0;  ///< number of ranks; all are awaited at the start
    Nanos timeout = kNanosPerSecond;  ///< limit of silence
    /// Additional patience if all ranks fall silent at once, in nanoseconds: the network or the
    /// machine was probably suspended.
    Nanos patience_with_all = 600 * kNanosPerSecond;
    std::uint32_t quorum = 1;         ///< smallest number of members of an epoch
  };
  /// Constructs a coordinator. With the journal of an earlier coordinator it continues from that
  /// state, with the ranks that are heard within one timeout.
  explicit Coordinator(const Options& options, const Journal& journal = {});

  /// Processes a status of a member.
  void on_status(const Status& status, Nanos now);
  /// Records that the process in this seat has ended.
  void record_exit(const Seat& seat);
  /// Removes silent members. Call many times per timeout: time in which the coordinator itself did
  /// not run does not count as silence.
  void check_heartbeats(Nanos now);
  /// Returns true if all present ranks are silent and are being waited for.
  bool all_silent() const { return all_silent_; }
  /// Asks all members to hold decision `number`; numbers increase. Call only while is_running().
  void propose_decision(std::uint64_t number);
  /// Starts a new epoch with the same members: they give up the current step and link again.
  void renew_epoch();
  /// Lets the members work on step committed_steps(). Call only while is_ready().
  void start_step();

  /// Returns true if the members are linked, no step is in progress and no decision is open.
  bool is_ready() const { return phase_ == Phase::idle && proposed_ == decided_; }
  /// Returns true if all members have applied every final step and their links work.
  bool is_settled() const;
  /// Returns true if an epoch is formed.
  bool is_running() const { return phase_ == Phase::idle || phase_ == Phase::working; }
  /// Returns the current epoch.
  std::uint64_t epoch() const { return epoch_; }
  /// Returns the number of final steps.
  Step committed_steps() const { return committed_; }
  /// Returns the members of the epoch, by rank.
  const std::vector<Seat>& members() const { return members_; }
  /// Returns the state that must be durable before later directives are sent.
  Journal journal() const { return {epoch_, committed_, committed_in_, decided_}; }

  /// Returns the directive that a rank should have now; nothing if the rank has to wait.
  std::optional<Directive> directive(std::uint32_t rank) const;
  /// Returns the ranks without a status for `span`, ascending.
  std::vector<std::uint32_t> silent(Nanos span, Nanos now) const;
  /// Returns the ranks that send statuses, members or not.
  std::vector<std::uint32_t> peers() const;
  /// Returns the events since the last call.
  std::vector<Happening> drain_happenings();

 private:
  enum class Phase : std::uint8_t { waiting, gathering, linking, idle, working };
  struct Peer {
    Status newest;
    Nanos heard = 0;
    bool member = false;
  };
  bool wait_for_all(Nanos now);
  void remove_member(Seat seat, bool silent);  ///< a copy: the caller's seat may be removed
  void review_membership();
  void gather_members();
  void agree_on_decision();
  void commit_step();
  bool has_broken_link() const;
  bool has_newcomers() const;
  template <class Condition>
  bool all_members(Condition condition) const;

  Options options_;
  bool restarted_;
  Phase phase_ = Phase::waiting;
  std::uint64_t epoch_ = 0, number_ = 0;
  Step committed_ = 0;
  std::uint64_t committed_in_ = 0, proposed_ = 0, decided_ = 0;
  std::uint64_t in_force_ = 0;  ///< newest decision in force in the current step
  std::vector<Seat> members_;
  std::uint32_t source_ = 0;
  bool share_ = false;
  std::map<std::uint32_t, Peer> peers_;  ///< keyed by rank
  std::optional<Nanos> began_, looked_;
  bool all_silent_ = false;
  std::vector<Happening> happened_;
};

}  // namespace orrery::membership

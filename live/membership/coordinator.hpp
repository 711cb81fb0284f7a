// Coordinator's end of the membership protocol: members, epoch, committed steps and agreed
// decisions. A state machine without clock, thread or socket: its input are statuses, exits and the
// time, its output are directives and events. Driven by live mode and by the model test; one
// thread.
//
// A change of membership begins a new epoch. First every candidate gives up the previous epoch
// (gathering), then all members link with each other (linking), then the members compute steps, one
// at a time. A step is committed when every member of the epoch holds its gradient sum: then each
// member can apply the sum even if other members die. A decision is agreed when every member has
// acknowledged it, and is in force from the next step on; a new epoch aborts a decision that is not
// agreed. A rank that falls silent is fenced: it belongs to no epoch, and its statuses only tell
// that it is heard again, until readmit_rank(). Instants and durations (Nanos) are nanoseconds of
// the caller's clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "live/membership/protocol.hpp"
#include "live/membership/state_parts.hpp"

namespace orrery::live::membership {

/// Event: a new epoch `epoch` begins, and all earlier epochs are revoked.
struct Revoked {
  std::uint64_t epoch = 0;
};
/// Event: a process was lost. `silent`: it sent no heartbeat within the timeout, and is fenced from
/// now on; otherwise it exited or was replaced.
struct Lost {
  Seat seat;
  bool silent = false;
};
/// Event: all candidates have given up earlier epochs, and the members of `epoch` are fixed.
struct Agreed {
  std::uint64_t epoch = 0;
};
/// Event: all members of `epoch` are linked.
struct Formed {
  std::uint64_t epoch = 0;
  std::vector<Seat> members;
};
/// Event: `step` was committed in `epoch`.
struct Committed {
  Step step = 0;
  std::uint64_t epoch = 0;
};
/// Event: all members agreed on decision `number`.
struct Decided {
  std::uint64_t number = 0;
};
/// Event: decision `number` was aborted by a new epoch.
struct Aborted {
  std::uint64_t number = 0;
};
/// Event: neither a present rank nor a fenced one has the training state. The run continues if a
/// rank with the state returns.
struct Stuck {};
/// Event that a coordinator reports.
using Happening = std::variant<Revoked, Lost, Agreed, Formed, Committed, Decided, Aborted, Stuck>;

/// State machine of the membership and the steps of one run. For example, if rank 1 of 3 falls
/// silent during a step, check_heartbeats() leads to the events Lost and Revoked; after the
/// statuses of ranks 0 and 2 follow Agreed and Formed, and the step is repeated.
class Coordinator {
 public:
  /// Parameters of a coordinator.
  struct Options {
    std::uint32_t ranks = 0;  ///< number of ranks of the run; the first epoch needs all of them
    Nanos timeout = kNanosPerSecond;  ///< time without a heartbeat after which a rank is lost
    /// time to wait if all ranks fall silent at once, which suggests a suspended network or machine
    Nanos patience_with_all = 600 * kNanosPerSecond;
    /// time to wait if only the ranks that hold the training state, or a part of it, are silent,
    /// while other ranks have exited or send statuses without that state: the last holders are
    /// worth more than others
    Nanos patience_with_holders = 600 * kNanosPerSecond;
    std::uint32_t quorum = 1;  ///< smallest number of members of an epoch
    /// keepers of the copies of a sharded training state; empty if each rank holds all of it
    StateParts::Keepers keepers = {};
  };
  /// Constructs a coordinator. `journal`: state of an earlier coordinator of the run, which the new
  /// coordinator continues with all ranks, or with the ranks that sent statuses: after one timeout
  /// if one of them holds the training state, otherwise after patience().
  explicit Coordinator(const Options& options, const Journal& journal = {});

  /// Processes a status, which arrived at the instant `now`; its sender is present from then on.
  /// The status of a fenced process is only recorded, see heard_again(); that of a later process of
  /// the rank removes the fence. Ignores an outdated status: of an earlier process of the rank, or
  /// with a heartbeat number that is not above the newest. A status of a replacement process
  /// removes the previous process of the rank (Lost), which begins a new epoch if it was a member.
  /// A new epoch (Revoked) aborts a proposed decision that is not agreed (Aborted). Agrees on no
  /// members while has_fenced_holder() is true and has_holder() is false: the epoch waits for the
  /// fenced ranks. Reports Stuck if all candidates have given up the earlier epoch and none has
  /// training state, nor a fenced rank, again at each change of a status until a rank has some.
  /// Makes every transition that the statuses now allow, each with its event: begins the first
  /// epoch once all ranks are present, fixes and forms the members, agrees on a decision, commits
  /// the step, and begins a new epoch if a link is broken or a rank waits between two steps.
  void on_status(const Status& status, Nanos now);
  /// Records that the process in this seat has exited (Lost; of a fenced process, whose loss was
  /// reported, only the fence is removed); ignores a process that is neither present nor fenced.
  /// The exit of a member begins a new epoch (Revoked), which aborts a decision that is not agreed
  /// (Aborted); during the gathering of an epoch, the exit may let the remaining ranks agree.
  void record_exit(const Seat& seat);
  /// Removes ranks that have been silent for longer than the timeout, as record_exit() does, and
  /// fences them (Lost with `silent`). While all_silent() is true, and until the call that ends it,
  /// no rank at all is removed; if a rank with the training state is heard again, every rank then
  /// gets a full timeout. Also begins the first epoch after a restart, see the constructor. Call
  /// many times per timeout: the time since the last call does not count as silence if it exceeds
  /// half a timeout, because then the coordinator itself was suspended.
  void check_heartbeats(Nanos now);
  /// Returns true if the newest check_heartbeats() found that the present ranks hold the training
  /// state, but only together with ranks that have been silent for more than half the timeout, and
  /// for at most patience(); if the present ranks do not hold the state: that all of them have been
  /// silent for so long. While the result is true, no rank is removed for silence. For example, a
  /// silent rank counts if it is the last holder, or the last one of a part of a sharded state.
  bool all_silent() const { return silence_.all; }
  /// Replaces Options::patience_with_holders, for example once a checkpoint is complete. The next
  /// check_heartbeats() uses the new value, also for a silence that has begun before.
  void set_patience_with_holders(Nanos patience) { options_.patience_with_holders = patience; }
  /// Returns true if the present ranks, members or not, hold the training state of all committed
  /// steps: one of them, or, if the state is sharded, all of them together. A new process holds the
  /// state, or its share, as soon as it has received it from its peers. A coordinator that
  /// continues a run does not know the parts of a sharded state before its first epoch is formed;
  /// until then, one holder is enough.
  bool has_holder() const { return count_copies() > 0; }
  /// Returns the number of copies of the training state of all committed steps that the present
  /// ranks hold; of a sharded state, that of the part with the fewest.
  std::size_t count_copies() const { return parts_.count_copies(holders()); }

  /// Fences a process that has not sent a status to this coordinator, at the instant `now`; ignores
  /// a process of a rank that is present or fenced.
  void fence_process(const Seat& seat, Nanos now);
  /// Returns true if the newest process of `rank` is fenced.
  bool is_fenced(std::uint32_t rank) const { return fenced_.contains(rank); }
  /// Returns true if this process is fenced.
  bool is_fenced(const Seat& seat) const;
  /// Returns the fenced processes, by rank.
  std::vector<Seat> fenced() const;
  /// Returns the fenced processes that have sent a status since they were fenced, by rank.
  std::vector<Seat> heard_again() const;
  /// Lets a fenced rank that is heard again take part from now on, as a rank that has just sent its
  /// newest status, at the instant `now`. It receives the training state of a peer if steps were
  /// committed meanwhile. Call only for ranks of heard_again(); throws an internal Error otherwise.
  void readmit_rank(std::uint32_t rank, Nanos now);
  /// Returns true if fenced ranks still hold training state of all committed steps with which the
  /// present ranks, if they hold any, have all of it. Only fenced ranks count that had been silent
  /// for at most Options::patience_with_holders at the newest check_heartbeats().
  bool has_fenced_holder() const;
  /// Returns true if the state of the fenced `rank` may be needed: the rank still holds the
  /// training state of all committed steps, or its share, and count_copies() is 0, or 1 and the
  /// rank was fenced less than a timeout before `now`, or all_silent(). A fenced process is not
  /// ended while its state may be needed.
  bool may_need_fenced(std::uint32_t rank, Nanos now) const;
  /// Returns the longest silence of all holders of the training state before they are removed:
  /// Options::patience_with_holders if the newest check_heartbeats() found ranks missing or heard
  /// meanwhile, otherwise patience_with_all.
  Nanos patience() const;
  /// Asks all members to hold and acknowledge decision `number`; numbers increase. An earlier
  /// decision that is not agreed yet is agreed or aborted together with it, and only the newest
  /// number is reported. Call only while is_running() and with a number above all proposed ones;
  /// throws an internal Error otherwise.
  void propose_decision(std::uint64_t number);
  /// Begins again with the state after `committed` steps, which may be fewer than before: forgets
  /// all present ranks, aborts a proposed decision (Aborted), and begins an epoch that waits for
  /// new processes: for the quorum, or for await_ranks(). Emits Revoked, but not Lost. The caller
  /// must ignore later statuses of the forgotten processes.
  void restart_from(Step committed);
  /// Sets the number of present ranks for which the current or next gathering waits; a number up to
  /// Options::quorum: only for the quorum. A smaller number may let the present ranks agree at
  /// once. Once an epoch is agreed, the number is 0 again.
  void await_ranks(std::uint32_t ranks);
  /// Begins a new epoch (Revoked) with all present ranks, which abandon the current step and link
  /// again; aborts a decision that is not agreed. Does nothing before the first epoch and while an
  /// epoch gathers.
  void renew_epoch();
  /// Lets the members compute step committed_steps(): the next directives have `work` set and put
  /// the newest agreed decision in force. Call only while is_ready(); throws an internal Error
  /// otherwise.
  void start_step();

  /// Returns true if the members are linked, no step is in progress and no decision is proposed.
  bool is_ready() const { return phase_ == Phase::idle && proposed_ == decided_; }
  /// Returns true if the members are linked, no step is in progress, all members have applied every
  /// committed step, and all links work.
  bool is_settled() const;
  /// Returns true if the members of the current epoch are linked.
  bool is_running() const { return phase_ == Phase::idle || phase_ == Phase::working; }
  /// Returns the current epoch, even while it gathers; before the first one of this coordinator,
  /// that of the journal, 0 without a journal.
  std::uint64_t epoch() const { return epoch_; }
  /// Returns the number of committed steps.
  Step committed_steps() const { return committed_; }
  /// Returns the members of the current epoch by rank; empty while an epoch gathers and before the
  /// first.
  const std::vector<Seat>& members() const { return members_; }
  /// Returns the state that must be durable before the next directives are sent.
  Journal journal() const { return {epoch_, committed_, committed_in_, decided_}; }

  /// Returns the directive to send to a rank now; nothing if the rank is not present, must wait for
  /// the next epoch, or this coordinator has begun no epoch yet.
  std::optional<Directive> directive(std::uint32_t rank) const;
  /// Returns the present ranks without a status for longer than `span` at `now`, ascending.
  /// Suspensions of the coordinator do not count, see check_heartbeats().
  std::vector<std::uint32_t> silent(Nanos span, Nanos now) const;
  /// Returns the present ranks, ascending: those that send statuses, members or not.
  std::vector<std::uint32_t> peers() const;
  /// Returns and removes the events since the last call, oldest first; empty if none happened.
  std::vector<Happening> drain_happenings() { return std::exchange(happened_, {}); }

 private:
  enum class Phase : std::uint8_t { waiting, gathering, linking, idle, working };
  /// Present rank.
  struct Peer {
    Status newest;
    Nanos heard = 0;      ///< instant of the newest status, later after a pause of the coordinator
    bool member = false;  ///< true if the rank is a member of the current epoch
  };
  /// Fenced process.
  struct Fence {
    Status newest;      ///< newest status; `beat` 0: none has arrived
    Nanos since = 0;    ///< instant of the fence
    Nanos heard = 0;    ///< instant of the newest status; of the fence if none has arrived
    bool back = false;  ///< true if a status has arrived since
  };
  /// Returns true if the rank has the training state of all committed steps, or can complete it
  /// with the gradient sum that it holds.
  bool is_holder(const Status& status) const;
  /// Returns the present ranks that hold the state or their share of it, ascending.
  std::vector<Holder> holders() const;
  /// Records the status of a fenced process; returns true if the process stays fenced.
  bool record_fenced(const Status& status, Nanos now);
  bool is_patient_with(const Fence& fence) const;
  bool wait_for_holders(Nanos now);
  /// `seat` is a copy: the caller's seat may be removed. `fenced_at`: instant of the fence of a
  /// silent rank.
  void remove_member(Seat seat, std::optional<Nanos> fenced_at = {});
  void review_membership();
  void gather_members();
  void agree_on_members();
  void commit_step();
  bool has_broken_link() const;
  bool has_newcomers() const;
  template <class Condition>
  bool all_members(Condition condition) const;

  Options options_;
  bool restarted_;  ///< true if an earlier coordinator began an epoch
  Phase phase_ = Phase::waiting;
  std::uint64_t epoch_ = 0, number_ = 0;
  Step committed_ = 0;
  std::uint64_t committed_in_ = 0, proposed_ = 0, decided_ = 0;
  std::uint64_t in_force_ = 0;  ///< newest decision in force in the current step
  std::vector<Seat> members_;
  std::uint32_t source_ = 0;
  std::uint32_t awaited_ = 0;  ///< see await_ranks()
  bool share_ = false;
  std::map<std::uint32_t, Peer> peers_;    ///< keyed by rank
  std::map<std::uint32_t, Fence> fenced_;  ///< keyed by rank; none of them is in peers_
  /// Instants of the first and the newest check_heartbeats().
  struct Checks {
    std::optional<Nanos> first, newest;
  };
  Checks checks_;
  StateParts parts_;
  /// Silence of the holders at the newest check_heartbeats().
  struct Silence {
    bool all = false;        ///< see all_silent()
    bool witnessed = false;  ///< other ranks exited or are heard while the holders are silent
  };
  Silence silence_;
  std::vector<Happening> happened_;
};

}  // namespace orrery::live::membership

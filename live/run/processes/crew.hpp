// Ranks of a run under the control core.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "live/membership/coordinator.hpp"
#include "live/run/files/journal.hpp"
#include "live/run/processes/agent_group.hpp"
#include "live/run/processes/briefing.hpp"
#include "live/run/processes/rank_control.hpp"
#include "live/run/processes/replacements.hpp"

namespace orrery::live {

/// Loss of a rank's process. `was_member`: the process was a member of an epoch; otherwise it was a
/// replacement that never joined.
struct RankDied {
  RankDeath death;
  bool was_member = false;
};
/// Rank that is not restarted any more, because its replacements died before they joined.
struct GivenUp {
  std::uint32_t rank = 0;
  std::string cause;
};
/// Loss of training state: ranks that were lost at once held a part of the state alone, so that the
/// run cannot continue.
struct StateGone {
  std::string what;
};
/// Event of the control core or of an agent, in the order of occurrence.
using RankEvent = std::variant<Incoming, RankDied, membership::Revoked, membership::Agreed,
                               membership::Formed, membership::Committed, membership::Decided,
                               membership::Aborted, membership::Stuck, GivenUp, StateGone>;

/// Processes of all ranks of a run, driven by the control core: transfers statuses and directives
/// between the agents and the coordinator, detects losses and starts replacements. Owns the agents
/// and the coordinator. The live backend reads the events and orders the next step. A rank that
/// falls silent is fenced: its process lives on, but its messages are ignored until readmit_rank().
/// Ranks are numbered as in RankControl. Single-threaded. Methods that start or signal processes
/// throw as AgentProcesses.
class RankProcesses : public RankControl {
 public:
  /// Starts the agents of the scenario's ranks and blocks until all are linked; agents that die
  /// meanwhile are started again. `slots`: number of GPUs that can have a rank; replace() starts
  /// the other ranks. Throws as AgentGroup, the errors that ranks report, and an environment Error
  /// if the agents are not linked within 30 s or the processes of a rank die again and again. With
  /// the journal of a started run, continues with the existing processes and does not block.
  /// `processes` and `journal` must outlive this object.
  RankProcesses(AgentProcesses& processes, const ControllerStart& place,
                const Assignment& assignment, std::uint32_t slots, Journal& journal);

  /// Blocks until an event other than a heartbeat has occurred, at the latest until `deadline`,
  /// then checks the heartbeats and starts due replacements. Returns all events in their order,
  /// perhaps none. Call many times per heartbeat timeout, and send_directives() after the events
  /// are handled. Kills a rank that reports an error of its process or machine, up to three times
  /// per rank on average without a commit; reports a lost part of the training state as StateGone.
  /// Throws any other error that a rank reports, and an environment Error if the ranks could not be
  /// linked in 30 attempts without a loss, a new member or a commit.
  std::vector<RankEvent> wait(Clock::time_point deadline);
  /// Sends the ranks their due messages, each once per stream; may block while a stream is full.
  /// Writes a changed epoch or decision to the journal before sending.
  void send_directives();

  /// Returns true if the members can start the next step: they are linked, no step is in progress
  /// and no decision is proposed.
  bool is_ready() const { return coordinator_.is_ready(); }
  /// Returns true if an epoch is formed and not revoked.
  bool is_epoch_formed() const { return coordinator_.is_running(); }
  /// Returns true if no step is in progress, all members have applied the newest commit, and all
  /// links work.
  bool is_settled() const { return coordinator_.is_settled(); }
  /// Returns the newest membership epoch, even while it is being formed; 0 before the first.
  std::uint64_t epoch() const { return coordinator_.epoch(); }
  /// Returns the ranks of the epoch, in the order of a plan's shares, which is ascending; empty
  /// while a new epoch gathers its members.
  std::vector<std::uint32_t> members() const;
  /// Starts the next step on all members, and sends the due messages; calls `plan` once for each
  /// member, in the order of members(). May be called only while is_ready() holds; throws an
  /// internal Error otherwise.
  void start_step(const std::function<StepPlan(std::uint32_t rank)>& plan);
  /// Sets the hardware of `rank`, without sending. The newest process of the rank receives it with
  /// the next send_directives() after its first status if the state has changed, later processes at
  /// their start.
  void set_hardware(std::uint32_t rank, const Hardware& hardware) {
    briefing_.set_hardware(rank, hardware);
  }
  /// Proposes decision `number` to the members, and sends the due messages. May be called only
  /// while is_epoch_formed() holds and with a number above all earlier ones; throws an internal
  /// Error otherwise. wait() reports the outcome as Decided or Aborted. See Coordinator.
  void propose_decision(std::uint64_t number);

  /// Orders each member to write its shard of a checkpoint, `attempt`, of the current state after
  /// `step` steps. May be called only while is_settled() holds, and before the next step; not
  /// checked. The order is lost for a member without a stream.
  void save(Step step, std::uint64_t attempt);

  /// Requests a replacement for a lost rank; does nothing while its process lives or a replacement
  /// is requested. A running warm spare becomes a candidate for membership instead; if
  /// begin_again() was called since the last commit, the spare is killed and replaced.
  void replace(std::uint32_t rank) override;
  void withdraw_rank(std::uint32_t rank) override;
  void renew_epoch() override;
  /// Kills the processes of all ranks except warm spares and cancels their requested replacements.
  /// Their ends are no losses, and the control core knows the ranks until begin_again().
  void end_ranks();
  /// Begins again with the state `from`: the processes that replace() starts from now on restore
  /// it. Call after end_ranks(), before wait(). Writes the rollback to the journal.
  void begin_again(const Resumption& from);
  /// Returns the state with which begin_again() was called since the last commit; nothing without a
  /// call.
  const std::optional<Resumption>& restored_state() const { return rolled_back_; }
  /// Sets the ranks whose processes wait as warm spares: connected, but no members. Starts the
  /// missing ones, and again if they end, see Replacements; kills those that are no spares any
  /// more. replace() turns a spare into a candidate. `ranks` must not name a rank that the job or
  /// its pending assignment uses: its statuses would be ignored.
  void set_spares(const std::vector<std::uint32_t>& ranks);
  /// Sets the number of present ranks for which the current or next gathering of an epoch waits; 0:
  /// for none. Once an epoch is agreed, the number is 0 again.
  void await_ranks(std::uint32_t ranks);
  /// Records that the training state is lost, for agents on other machines, which join again.
  void record_lost_state() { agents_.record_lost_state(); }
  /// Begins a new epoch and closes the agents' streams, so that all connections are opened again,
  /// with the newest certificates. Sends no messages: call send_directives() afterwards. Call only
  /// while is_ready() holds, which is not checked: during a step, the step is abandoned.
  void renew_connections();
  /// Replaces the longest time to wait for silent ranks that hold the training state alone; see
  /// RankStates::patience.
  void set_patience_with_holders(Nanos patience);
  void end(std::uint32_t rank, const std::string& cause) override;
  void signal(std::uint32_t rank, int number) override;
  void fence(std::uint32_t rank) override;
  void readmit_rank(std::uint32_t rank) override;
  /// Returns the states of all ranks (RankControl::states()). The first call after an event or
  /// order computes the states anew, which takes O(ranks). `all_silent`: the run has the state only
  /// with ranks that were silent for more than half the heartbeat timeout at the newest wait(), but
  /// not for longer than `patience` (if the present ranks do not hold the state: if all of them
  /// were), or `waits_for_fenced`; false without present ranks and before the first check.
  const RankStates& states() const override;
  /// Fences the running processes that were members of an epoch and whose ranks do not work any
  /// more: an earlier controller had fenced them. Call before the first wait().
  void fence_former_members(const std::function<bool(std::uint32_t rank)>& is_working);

  /// Hashes of the parameters after the run, by rank, and the losses meanwhile.
  struct Parting {
    std::map<std::uint32_t, std::string> hashes;
    std::vector<RankDeath> deaths;
  };
  /// Ends the run after `steps` committed steps: kills the fenced ranks, orders all other running
  /// ranks except warm spares to stop, and blocks until all have answered, for at most 10 s;
  /// ignores their other messages. Returns the parameter hashes of the ranks that hold them, and as
  /// losses the ranks that ended, failed or did not answer. Both are empty if no rank runs. Call
  /// once, after the last wait().
  Parting finish_run(Step steps);

 private:
  using Seat = membership::Seat;
  /// Blocks until all ranks are linked for the first time.
  void form_epoch();
  /// Handles an error that a rank reports.
  void on_failure(const Seat& seat, const Failed& failed, std::vector<RankEvent>& events);
  /// Passes an event of an agent, and the events of the coordinator that follow from it, to the
  /// functions with their rules, and adds the resulting events to `events`.
  void pass_incoming(const Incoming& incoming, std::vector<RankEvent>& events);
  /// Passes the events of the coordinator to the functions with their rules and adds them to
  /// `events`.
  void pass_happenings(std::vector<RankEvent>& events);
  /// Counts an epoch that begins; throws an environment Error after too many in vain.
  void count_futile_epoch();
  /// Records the members of a formed epoch, new ones in the journal.
  void record_members(const std::vector<Seat>& members);
  /// Records that a step is committed.
  void record_commit();
  /// Records the loss of a process and returns its event.
  RankDied note_loss(const membership::Lost& lost);
  /// Use of a message.
  struct Received {
    bool is_status = false;  ///< the coordinator received a status and may report events
    bool is_event = false;   ///< the message is an event of its own
  };
  /// Handles a message of a process that is not lost: passes its status to the coordinator, or to
  /// the warm spares. Adds only the event of a reported error to `events`. Throws as wait().
  Received record_message(const Incoming& incoming, std::vector<RankEvent>& events);
  /// Records that the process `seat` has ended, and requests a warm spare again. Returns the loss
  /// of a process that is neither fenced nor a spare; the coordinator reports the same loss if the
  /// process had sent a status.
  std::optional<RankDied> note_end(const Seat& seat);
  /// Writes epoch and decisions to the journal, if changed.
  void journal_epoch();
  /// Returns true if the newest process of `rank` runs, and is neither fenced nor lost.
  bool is_alive(std::uint32_t rank) const;
  /// Starts the due replacements.
  void start_replacements(std::vector<RankEvent>& events);
  /// Returns true if the process was a member of any epoch.
  bool was_member(const Seat& seat) const { return journal_.state().joined.contains(seat); }
  /// Returns the time since the construction in nanoseconds.
  Nanos now() const { return since(born_); }

  const Clock::time_point born_ = Clock::now();
  const Nanos timeout_;
  Journal& journal_;
  AgentGroup agents_;
  membership::Coordinator coordinator_;
  std::map<Seat, std::string> causes_;     ///< Causes of ended processes.
  std::map<Seat, std::string> sentences_;  ///< Reasons for which this object killed processes.
  Briefing briefing_;
  /// Warm spares, each with the newest status of its process, if any has arrived.
  std::map<std::uint32_t, std::optional<MemberStatus>> spares_;
  std::set<Seat> dead_;  ///< Processes whose later events are ignored.
  Replacements replacements_;
  int futile_ = 0;              ///< Epochs since the last commit, loss or new member.
  std::uint32_t failures_ = 0;  ///< Errors of ranks since the last commit.
  bool formed_ = false;         ///< True once all ranks have been linked.
  /// State with which the next processes begin; none once a step has been committed in it.
  std::optional<Resumption> rolled_back_;
  mutable RankStates states_;           ///< Newest value of states().
  mutable bool are_states_old_ = true;  ///< True if an event or order may have changed the states.
};

}  // namespace orrery::live

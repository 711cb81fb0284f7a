// State machine of a live run's steps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "live/run/run_parts.hpp"
#include "live/run/step_parts.hpp"
#include "policies/seam/gate.hpp"

namespace orrery::live {

/// State machine that drives a live run: plan a step, send the step to all ranks, collect their
/// reports, commit. Decisions that concern all ranks are proposed to the ranks first and take
/// effect with the next plan. If a rank is lost before the commit, the surviving ranks repeat the
/// step. Owns the parts that have the rules (StepParts): recovery, faults, detection, proposals,
/// current step. The live backend calls the driver about twenty times a second; single-threaded.
class StepDriver : public Carrier {
 public:
  /// Starts the ranks and blocks until all are linked, or continues with the ranks of an earlier
  /// controller if the journal holds a started run. Begins with the state in the journal.
  /// `assignment`: for all ranks. `offered`: features of the run, `needs`: of the policies. `run`
  /// and `processes` must outlive the driver. Throws as StepParts.
  StepDriver(RunParts& run, AgentProcesses& processes, const ControllerStart& place,
             const Assignment& assignment, const Capabilities& offered, const Needs& needs);

  /// Begins the work on the steps with the state in the journal: shows the committed steps that no
  /// policy has seen, gives the present processes their orders, requests the missing processes of a
  /// pending assignment, processes `open`, the announced decisions without an outcome, and begins
  /// the next step if possible. A new run has no unseen steps, no recorded faults and no open
  /// decisions. No effect once the run is over. Call once, after the replay and the start of the
  /// clock, and before await_events().
  void begin_training(const std::vector<Decision>& open);

  /// Proposes waiting decisions to the ranks if an epoch is formed. Then begins the next step:
  /// sends the plan to all ranks, records the members as working and replaced (FailureRecords),
  /// emits changed parts and injects due faults. Begins no step while no epoch is formed, a step is
  /// in flight, a proposal is not agreed, the policies have not seen all events, the job is not
  /// running, or the members are not exactly the processes that the job uses
  /// (Placement::is_complete()); nor after the last step, once the run is over, or during a stop
  /// without a requested checkpoint. Begins a new epoch with new connections instead, once
  /// renew_connections_at() has been reached. Call only once the job is submitted, also before the
  /// first await_events(): decisions before the run take effect from its first step on.
  void begin_next_step();
  /// Blocks until an event other than a heartbeat of the ranks has occurred, at the latest until
  /// `deadline`, and applies the events: commits a step that all ranks have reported, records and
  /// reports losses, activates assignments, and ends a run that cannot continue. Then emits the
  /// outcomes of finished checkpoints, except of steps that were rolled back. Call only once the
  /// job is submitted and while is_over() is false. Throws as RankProcesses::wait().
  void await_events(Clock::time_point deadline);
  /// Advances the run after await_events(): ends the run if it is complete, otherwise begins the
  /// next step (begin_next_step()) if possible. Sends the ranks their messages, injects faults,
  /// kills or reconnects stalled ranks, and reports suspected ranks, changed parts and missing
  /// ranks. Retries the last checkpoint before the run ends. If no process holds the training state
  /// any more and the policies have seen all events, restarts the ranks of a pending replacement,
  /// or waits for an assignment (Recovery::can_be_assigned()); ends the run early if neither is
  /// possible, if a hold cannot end, or if a stop is requested during a hold. Once the run is over,
  /// only sends the ranks their messages.
  /// Call only once the job is submitted. Throws an environment Error if the owner of the processes
  /// is another process that has ended.
  void advance_run();
  /// Announces decisions to the world and passes them to the gate, which carries out, defers,
  /// rejects or expires each, or keeps it for a proposal; activates a pending assignment that is
  /// ready. The wake-up times are in the journal's state already. `trains`: the clock has started,
  /// so that the decisions are also proposed to the ranks and the next step begins if possible.
  /// Call once for each observation, after World::begin_batch() and once the job is submitted.
  /// Throws an internal Error for an id of a decision without an outcome.
  void accept_decisions(const DecisionList& decisions, bool trains);
  /// Returns true if the policies want to be called at `now` or before, and no observation has
  /// served that.
  bool is_wake_due(Nanos now) const { return next_wake(run_.journal.state()) <= now; }
  /// Returns the instant of the earliest scheduled call, which may be past, or of the next change
  /// of a fault after now, whichever is earlier; kNever if neither exists.
  Nanos next_instant() const;

  /// Requests the end of the run, after the current step or, if no step is in flight, without
  /// another one; a job on hold ends at the next advance_run(). If `order` demands a final
  /// checkpoint, the run ends after the first step that ends with a checkpoint, at most one step
  /// later, or after the last step. Adds a line to the operator's status. Warns instead of the
  /// checkpoint if the run has no checkpoint folder. The reason in `order` must not be empty. No
  /// effect if the run is over or already stopping.
  void stop(const StopRun& order);
  /// Announces the removal of a part by order of the operator, as a planned removal of the
  /// scenario: policies are told at the next advance_run(), and the ranks that are still on the
  /// part are lost at the removal. Returns the reason why the removal cannot be announced, with the
  /// name of the part; empty if it was announced.
  std::string announce_removal(const RemovalOrder& order);
  /// Sets the instant from which begin_next_step() renews all connections, once, before the next
  /// step. A later call replaces the instant; kNever: no renewal, as at the start.
  void renew_connections_at(Nanos instant) { renew_connections_at_ = instant; }
  /// Returns true if stop() has taken effect.
  bool is_stopping() const { return parts_.end.is_stopping(); }
  /// Returns true if no further step will be trained: the run is complete or ended early, also if
  /// the journal says so.
  bool is_over() const { return over_; }
  /// Records the ranks at the end of the run, and warns if ranks are missing. If all steps are
  /// committed and the training state is complete, collects the parameter hashes and ends the ranks
  /// (RunEnd::gather_hashes(), blocks at most 10 s, throws an internal Error if they differ) and
  /// returns true; returns false otherwise. Call once, after is_over() or after the replay of
  /// JobDone. Throws an internal Error if the world does not hold the job any more.
  bool finish_run();
  /// Emits JobDone, and rejects the decisions that are deferred or still wait at the gate; those
  /// past their expiry or epoch expire. Call once, after finish_run() has returned true.
  void emit_job_done();

  /// Returns the step that is in flight or next; valid as long as the driver.
  const OpenStep& step() const { return parts_.step; }
  /// Writes steps, settings and ranks into the status, as fill_status(). Appends to lists.
  void fill(RunStatus& status) const;
  /// Writes the hash of the parameters, the ranks at the end and the faults into the report, and
  /// the reason if the run is not complete. Call after finish_run().
  void fill(Report& report) const;
  /// Returns true if the run is not over, no loss is unreported, and no decision waits for the
  /// agreement of the ranks, so that a snapshot would hold all pending work. A step may be in
  /// flight: a successor repeats it, as after any loss.
  bool is_quiet() const;

  // Interface to the decision gate (Carrier).
  /// Returns the reason why this run cannot carry out the decision: an assigned GPU that can have
  /// no process, or an objection of fabric_refusal(); empty if the run can.
  std::string refusal(const Decision& decision) const override;
  bool is_step_open(JobId) const override { return parts_.step.is_current(); }
  /// Adds the event to the operator's status, applies the event to the world and adds it to the
  /// next observation.
  void emit_event(Event event) override;
  /// Carries out a decision: accepts an assignment (Recovery), takes the job off its GPUs
  /// (release_job(), blocks at most ten seconds), or requests a checkpoint. Settings have no effect
  /// here: the next plan reads them from the world. Throws as release_job().
  void carry_out(const Decision& decision) override;

 private:
  /// Name of the whole training state, for abandon_run().
  static constexpr const char* kWholeState = "the training state";
  /// Handles one event of the ranks.
  void handle_event(const RankEvent& event);
  /// Handles one message of a rank.
  void handle_message(const Incoming& incoming);
  /// Handles the loss of a process.
  void handle_loss(const RankDied& died);
  /// Handles a new epoch: discards the work of the step, which all ranks had reported before they
  /// left the old epoch.
  void handle_new_epoch(const membership::Formed& formed);
  /// Shows the committed steps that no policy has seen, and settles the decisions that were
  /// deferred to their ends.
  void show_steps();
  /// Gives the present processes the orders that follow from the state: which of them wait as warm
  /// spares, which stopped ones continue, which recorded faults hit them.
  void give_orders();
  /// Commits the current step.
  void commit_step(const membership::Committed& committed);
  /// Handles a rank that is not restarted any more.
  void omit_rank(const GivenUp& given_up);
  /// Ends the run after the loss of `what`, a part of the training state or all of it.
  void abandon_run(std::string what);
  /// Restores a job whose training state no process has, or lets it wait for GPUs; ends the run if
  /// neither is possible. Returns false if the run has ended, or if the policies must see the
  /// losses first.
  bool handle_lost_state(Nanos now);
  /// Begins the next step if the ranks are ready and the policies have seen all events.
  void begin_step();
  /// Reports changed parts of the cluster to the policies.
  void emit_part_changes();
  /// Reviews a run that is not over: injects faults, reports parts, suspects and missing ranks, and
  /// ends a run that cannot continue.
  void review_run();
  /// Ends the run if all steps are committed or the operator has requested the end, and the last
  /// step's checkpoint is complete. Retries a missing checkpoint.
  void end_if_complete();
  /// Ends the run before its last step.
  void end_early();

  RunParts& run_;
  StepParts parts_;
  Nanos renew_connections_at_ = kNever;
  std::vector<StepsDone> unseen_;  ///< Committed steps that no event has shown yet.
  Epoch deserted_in_;  ///< Newest epoch in which a job without ranks waits for its policies.
  bool over_;
};

}  // namespace orrery::live

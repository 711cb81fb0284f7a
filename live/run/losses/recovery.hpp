// Recovery of the job after losses of ranks and new assignments.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "live/run/observations/policy_clock.hpp"
#include "live/run/processes/placement.hpp"
#include "live/run/processes/rank_control.hpp"
#include "policies/seam/gate.hpp"

namespace orrery::live {

/// Recovery of one job. Silent ranks that are heard again return, or end (returns_of()). Losses are
/// reported to the policies together, once the survivors have left
/// the old epoch. Lost ranks are replaced if the job's settings or an assignment demand it. An
/// assignment is activated once all its ranks have joined. Used by the live backend;
/// single-threaded. Instants are times of the policy clock. Call the methods only once the job is
/// submitted, except has_unreported() and is_held(). Methods that request or end processes throw as
/// RankControl.
class Recovery {
 public:
  /// Starts without losses. All references must outlive this object. Reports events to `carrier`
  /// and changes of membership to `gate`. `held_since`: start of the hold in the run's state,
  /// kNever if the job is not on hold. `hold_limit`: longest time that a job on hold waits for an
  /// assignment; nothing if no policy assigns. `can_run`: returns true if the job can run with a
  /// number of replicas. `sharded_on`: if each rank holds only parts of the training state, the
  /// cluster of the ranks, so that a rank does not leave together with the rank that holds the
  /// copies of its parts; null if every rank holds the whole state. `writes_shard`: returns true
  /// while a rank writes its shard of a checkpoint; empty if the run has no checkpoints.
  Recovery(Placement& placement, RankControl& control, Carrier& carrier, DecisionGate& gate,
           const PolicyClock& clock, Nanos held_since, std::optional<Nanos> hold_limit,
           std::function<bool(std::uint32_t replicas)> can_run, const Cluster* sharded_on = nullptr,
           std::function<bool(std::uint32_t seat)> writes_shard = {})
      : placement_(placement),
        control_(control),
        carrier_(carrier),
        gate_(gate),
        clock_(clock),
        hold_limit_(hold_limit),
        can_run_(std::move(can_run)),
        sharded_on_(sharded_on),
        writes_shard_(std::move(writes_shard)),
        held_since_(held_since) {}

  /// Records that the process in `seat` has ended. Returns true if the job used the process, so
  /// that its loss must be reported by emit_losses(), also for a leaving process that this object
  /// has not killed. Returns false for a leaving process that it has killed, for a process that the
  /// job does not use, for a loss that is recorded already or was reported by an
  /// earlier controller, and for a replacement that never joined (`was_member` false); requests
  /// another replacement if the pending assignment needs the seat.
  bool record_exit(std::uint32_t seat, bool was_member);
  /// Returns true if a loss is recorded that emit_losses() has not reported yet.
  bool has_unreported() const { return !untold_.empty(); }
  /// Returns true if the job has GPUs, every working rank has an unreported loss or is leaving and
  /// has ended, and no process holds the training state. False if a new process has received the
  /// state, if the job has no GPUs, if the job is restarting, or after begin_restore()
  /// until the assignment is active or void.
  bool is_nobody_left() const;
  /// Begins the restore of a job of which nobody is left, at step `next`: returns true if a
  /// replacement is pending, a checkpoint is complete, and the run has advanced since the last
  /// restore.
  bool begin_restore(Step next);
  /// Requests the processes of the pending assignment that do not run, and restarts the time limit
  /// of a hold with a pending assignment; no effect without a pending assignment. Call for each new
  /// assignment, and whenever processes of the pending one may be missing.
  void start_missing();
  /// Reports the unreported losses to the policies as one RanksLost event, and expires the settings
  /// that wait for a step. Then requests replacements for the lost ranks whose GPUs the pending
  /// assignment names; if none was pending, the loss itself makes an assignment to the same GPUs
  /// where OnLoss is `replace`. Puts the job on hold (JobHeld, the time of the hold starts) if
  /// OnLoss is `hold`, if the job was not running, or if the remaining ranks cannot continue. No
  /// effect without unreported losses.
  void emit_losses();

  /// Carries out an assignment with GPUs that the world holds as pending and that may have replaced
  /// an earlier pending one: requests the missing processes (start_missing()), also on seats
  /// abandoned before, and ends processes that neither the job nor the assignment uses. The other
  /// ranks continue until activate_assignment(). Call before the world applies its JobStarted, and
  /// not for a release.
  void accept_assignment(const Assign& assign);
  /// Records that all ranks of the job have been ended, for a release or a restart: forgets
  /// unreported losses, and begins a hold, which the next assignment ends once it is active.
  void mark_released();
  /// Ends those of `members` (seats) that neither the job nor its pending assignment uses, for
  /// example a process that was started for an earlier assignment, and cancels their requested
  /// restarts.
  void end_strays(const std::vector<std::uint32_t>& members);
  /// Records that no process is started for `seat` any more until an assignment names the seat, and
  /// calls activate_assignment() with step `next` if an epoch is formed: the pending assignment may
  /// have waited for this seat alone.
  void abandon_seat(std::uint32_t seat, Step next);
  /// Advances the pending assignment if all of its seats except abandoned ones, at least one, are
  /// in `members`, no loss is unreported, and the job has steps to do: kills the members that leave
  /// or are not used, of leaving ones those that can leave together (leaving_together()), or, once
  /// they are gone,
  /// activates the assignment at step `next`, which ends a hold and expires the settings that wait
  /// for a step. Otherwise, or if no assignment is pending, has no effect; nor while a rank that
  /// would leave writes its shard of a checkpoint, at most for 10 s.
  void activate_assignment(const std::vector<std::uint32_t>& members, Step next);
  /// Calls activate_assignment() with the members of the formed epoch; no effect while no epoch is
  /// formed. If a step is in progress (`in_step`) and all working ranks stay, they complete the
  /// step first: call again after the step.
  void activate_when_ready(bool in_step, Step next);
  /// Readmits the fenced ranks that are heard again and may return (returns_of()), and withdraws
  /// those whose places are taken or whose GPUs do not work; no effect once the job has done all
  /// steps. Readmits all of them while the run waits for their state
  /// (RankStates::waits_for_fenced): a process whose place is taken ends as a stray member of
  /// the next epoch, once the others have its state. Call many times a second.
  void review_heard_ranks();
  /// Reports that the lost ranks among `members` (seats) of a new epoch work again at the next
  /// step, which ends a hold and expires the settings that wait for a step. No effect while a loss
  /// is unreported or an assignment is pending, or if the ranks may not return (returns_of()).
  void return_ranks(const std::vector<std::uint32_t>& members);
  /// Returns true if no process is running and no seat is pending; abandoned seats are not pending.
  bool is_deserted() const;
  /// Fences the working processes that are not in `members` (seats), except leaving ones: members
  /// by the state of an earlier controller that have not connected again, and ranks whose recorded
  /// loss is not emitted yet. Returns their seats, ascending; empty if none is missing. Does not
  /// record their losses: call record_exit() for each, which returns false for a recorded one.
  std::vector<std::uint32_t> fence_missing(const std::vector<std::uint32_t>& members);

  /// Returns true from the JobHeld event, or from mark_released(), until an assignment is active.
  bool is_held() const { return held_since_ != kNever; }
  /// Returns true if the job has been on hold for longer than the hold limit, counted from the hold
  /// or from the newest assignment. Without a limit, returns true if the job is on hold, no
  /// assignment is pending, the policies have seen all events (`shown`), and no lost rank of the
  /// job may return, for which a hold waits as long as RankStates::patience. False if the job is
  /// not on hold.
  bool is_hold_unanswerable(bool shown) const;

  /// Returns true if a policy may still assign GPUs to a job without ranks: the job is on hold, no
  /// assignment is pending, a checkpoint is complete, the policies are to be called
  /// (`is_call_due`), and the limit of the hold has not passed. False without a limit.
  bool can_be_assigned(bool is_call_due) const;

 private:
  const JobInfo& job() const { return placement_.job(); }
  /// Returns those of `members` that leave now: all leaving ones, or, if the state is sharded, as
  /// many as can leave without the last copy of a part. For example, four ranks of a node leave
  /// together if four ranks of another node hold the copies.
  std::vector<std::uint32_t> leaving_together(const std::vector<std::uint32_t>& members) const;
  /// Returns true if one of the seats `leaving` still writes its shard of a checkpoint, which would
  /// fail without the shard, unless the move has waited for that for 10 s.
  bool is_move_delayed(const std::vector<std::uint32_t>& leaving);
  /// Returns true if the process of a lost rank of the job runs: fenced, or on its way back.
  bool may_rank_return() const;
  /// Kills a leaving process: its end is no loss.
  void dismiss_rank(std::uint32_t seat);
  /// Returns true if a working rank is to leave, so that the current step is not completed.
  bool is_step_abandoned() const;

  Placement& placement_;
  RankControl& control_;
  Carrier& carrier_;
  DecisionGate& gate_;
  const PolicyClock& clock_;
  const std::optional<Nanos> hold_limit_;
  const std::function<bool(std::uint32_t)> can_run_;
  const Cluster* const sharded_on_;
  const std::function<bool(std::uint32_t)> writes_shard_;
  std::vector<std::uint32_t> untold_;  ///< Seats whose loss is not reported yet.
  std::set<std::uint32_t> dismissed_;  ///< Seats of killed leaving processes that have not ended.
  /// Start of the hold or of the wait for its newest assignment; kNever if the job is not on hold.
  Nanos held_since_;
  /// Begin of the wait for the shards of ranks that leave; kNever: none.
  Nanos delayed_since_ = kNever;
  std::optional<Epoch> restoring_;  ///< epoch that the job leaves by a restore
  Step least_progress_ = 0;         ///< step that the run must have reached for a restore
};

}  // namespace orrery::live

// Recovery of the job after losses of ranks and new assignments.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "live/run/observations/policy_clock.hpp"
#include "live/run/processes/placement.hpp"
#include "live/run/processes/rank_control.hpp"
#include "live/supervision.pb.h"
#include "policies/seam/gate.hpp"

namespace orrery::live {

/// Recovery of one job. Losses are reported to the policies together, once the survivors have left
/// the old epoch. Lost ranks are replaced if the job's settings or an assignment demand it. An
/// assignment is activated once all its ranks have joined. Used by the live backend;
/// single-threaded. Instants are times of the policy clock.
class Recovery {
 public:
  /// Starts without losses. All references must outlive this object. Reports events to `carrier`
  /// and changes of membership to `gate`. `hold_limit`: longest time that a job on hold waits for
  /// an assignment; nothing if no policy assigns. `can_run`: returns true if the job can run with a
  /// number of replicas.
  Recovery(Placement& placement, RankControl& control, Carrier& carrier, DecisionGate& gate,
           const PolicyClock& clock, std::optional<Nanos> hold_limit,
           std::function<bool(std::uint32_t replicas)> can_run)
      : placement_(placement),
        control_(control),
        carrier_(carrier),
        gate_(gate),
        clock_(clock),
        hold_limit_(hold_limit),
        can_run_(std::move(can_run)) {}

  /// Records that the process in `seat` has ended. Returns true if the job used the process, so
  /// that its loss must be reported by emit_losses(). Returns false for a leaving process, for a
  /// loss that is recorded already or was reported by an earlier controller, and for a replacement
  /// that never joined; requests another replacement if the pending assignment needs the seat.
  bool record_exit(std::uint32_t seat, bool was_member);
  /// Returns true if a loss has not been reported yet.
  bool has_unreported() const { return !untold_.empty(); }
  /// Returns true if all processes that the job used have ended, and the training state with them;
  /// false if a new process has received the state, or if the job has no GPUs.
  bool is_nobody_left() const;
  /// Reports the unreported losses to the policies, expires the settings that wait for a step,
  /// requests the replacements that the job's settings demand, and holds the job if it cannot
  /// continue. No effect without unreported losses.
  void emit_losses();

  /// Accepts an assignment, which may replace a pending one: starts the missing processes, also on
  /// abandoned seats, and ends those that only the earlier assignment needs. The other ranks
  /// continue until the new processes have joined. Restarts the time limit of a hold.
  void accept_assignment(const Assign& assign);
  /// Ends the members that neither the job nor its pending assignment uses, for example a process
  /// that was started for an earlier assignment.
  void end_strays(const std::vector<std::uint32_t>& members);
  /// Records that no process is started for `seat` any more, and calls activate_assignment() if an
  /// epoch is formed: the pending assignment may have waited for this seat alone.
  void abandon_seat(std::uint32_t seat, Step next);
  /// Advances the pending assignment if all of its seats except abandoned ones are in `members`, no
  /// loss is unreported, and the job has steps to do: kills the members that leave or are not used
  /// or, once they are gone, activates the assignment at step `next`, which ends a hold and expires
  /// the settings that wait for a step. Otherwise, or if no assignment is pending, has no effect.
  void activate_assignment(const std::vector<std::uint32_t>& members, Step next);
  /// Calls activate_assignment() with the members of the formed epoch; no effect while no epoch is
  /// formed. If a step is in progress (`in_step`) and all working ranks stay, they complete the
  /// step first: call again after the step.
  void activate_when_ready(bool in_step, Step next);
  /// Returns true if no process is running and none is pending.
  bool is_deserted() const;
  /// Kills the members, by the state of an earlier controller, that are not in `members`. Returns
  /// their seats.
  std::vector<std::uint32_t> end_missing(const std::vector<std::uint32_t>& members);
  /// Completes the interrupted work of an earlier controller: starts pending processes and kills
  /// leaving ones.
  void resume_interrupted();

  /// Returns true if the job is on hold; an assignment ends the hold once it is active.
  bool is_held() const { return held_since_ != kNever; }
  /// Returns true if the job has been on hold for longer than the hold limit, counted from the hold
  /// or from the newest assignment. Without a limit, returns true if the job is on hold, no
  /// assignment is pending, and the policies have seen all events (`shown`).
  bool is_hold_unanswerable(bool shown) const;

  /// Writes the start of the hold into a snapshot of the journal.
  void save_to(JournalSnapshot& now) const { now.set_held_since(held_since_); }
  /// Restores the start of the hold from a snapshot.
  void restore_from(const JournalSnapshot& then) { held_since_ = then.held_since(); }
  /// Applies an event that an earlier controller has reported at `at`.
  void apply_reported(const Event& event, Nanos at);

 private:
  const JobInfo& job() const { return placement_.job(); }
  /// Returns true if a working rank is to leave, so that the current step is not completed.
  bool is_step_abandoned() const;

  Placement& placement_;
  RankControl& control_;
  Carrier& carrier_;
  DecisionGate& gate_;
  const PolicyClock& clock_;
  const std::optional<Nanos> hold_limit_;
  const std::function<bool(std::uint32_t)> can_run_;
  std::vector<std::uint32_t> untold_;  ///< Seats whose loss is not reported yet.
  /// Start of the hold; kNever if the job is not on hold.
  Nanos held_since_ = kNever;
};

}  // namespace orrery::live

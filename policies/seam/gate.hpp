// Gate through which all decisions of a run pass, the same in simulated and live runs. The gate
// announces a decision to World, checks it against its expiry, the job's epoch, World's objections,
// the run's features and the backend's limits, defers it until its step, and reports its outcome as
// one Decided event. Backends state which decisions they refuse and carry out the accepted
// decisions. All calls come from the thread that runs drive(). Instants (Nanos) are nanoseconds of
// the policy clock.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Interface of a backend towards the gate: refuses decisions, carries out decisions, shows events.
class Carrier {
 public:
  virtual ~Carrier() = default;
  /// Returns the reason why this run cannot carry out the decision, apart from World's objections
  /// and the run's features; empty if the run can. Called only for a decision without those
  /// objections, so that its job exists; called again at each later check of the decision.
  virtual std::string refusal(const Decision& decision) const = 0;
  /// Returns true if a step of the job is in progress.
  virtual bool is_step_open(JobId job) const = 0;
  /// Applies an event of this instant to the world and adds the event to the next observation.
  virtual void emit_event(Event event) = 0;
  /// Carries out an accepted decision from its step on, or at once. The gate has emitted the
  /// decision's Decided event before the call.
  virtual void carry_out(const Decision& decision) = 0;
};

/// State machine of all decisions of a run. Not thread-safe.
///
/// For example, a Configure of shares with `at_step` 7 that is decided during step 6 is reported as
/// applied at once, and World stores the shares for step 7. With `at_step` 0 it is deferred to the
/// end of step 6, checked again and then reported. A Save with `at_step` 9 is deferred until step 8
/// has ended.
///
/// The decisions of one call are checked in order, each against the world as the earlier decisions
/// leave it. A setting that changes steps, next to an assignment of its job in the same call, is
/// checked after the assignment, against the layout of the assignment, and applies from the epoch
/// of the assignment on (World::starts_with_assignment). The ranks need not agree on such a
/// setting, because they agree on the epoch.
class DecisionGate {
 public:
  /// Constructs a gate; `world` and `carrier` must outlive the gate. `agreement`: settings that
  /// change steps must first be proposed to all ranks of the job. The backend gets these decisions
  /// from drain_unagreed() and calls apply_agreed() or expire_decision() for each.
  DecisionGate(World& world, Capabilities offered, Carrier& carrier, bool agreement = false)
      : world_(world), offered_(offered), carrier_(carrier), agreement_(agreement) {}

  /// Processes the decisions on one observation: stores the wake-up times (past ones as `now`),
  /// announces every decision to World, and then applies, defers, rejects or expires each decision,
  /// or keeps it for drain_unagreed(). Call once for each observation, after World::begin_batch():
  /// the decisions of one call are those announced since then. Throws an internal Error for an id
  /// that is announced already.
  void accept_decisions(const DecisionList& decisions, Nanos now);
  /// Processes decisions that are announced to World already, for example by an earlier controller
  /// of the run: as accept_decisions(), without wake-up times.
  void resume_decisions(const std::vector<Decision>& decisions, Nanos now);
  /// Adds an instant at which policies want to be called; an instant that is present already counts
  /// once.
  void wake(Nanos at) { wakes_.insert(at); }
  /// Records that an earlier controller has applied a decision on `job` from `step` on, so that
  /// next_effect() counts the step until settle_deferred() passes it.
  void expect_effect(JobId job, Step step) { effects_.emplace(job, step); }

  /// Returns the decisions that must be proposed to the ranks and have not been returned before.
  /// The backend must finish each with apply_agreed() or expire_decision().
  std::vector<Decision> drain_unagreed() { return std::exchange(unagreed_, {}); }
  /// Returns true if drain_unagreed() would return decisions.
  bool has_unagreed() const { return !unagreed_.empty(); }
  /// Processes a decision on which all ranks agreed: defers it, or checks it once more and reports
  /// it as applied, rejected or expired.
  void apply_agreed(const Decision& decision, Nanos now);
  /// Reports a decision that drain_unagreed() has returned as expired, because a change of
  /// membership prevented the agreement.
  void expire_decision(const Decision& decision);

  /// Checks the decisions that were deferred to this step boundary or an earlier one, and reports
  /// each as applied, rejected or expired; applied ones are carried out. The settings that start
  /// with a refused assignment get the outcome of the assignment. Forgets the past steps of
  /// next_effect(). Call after the job's StepsDone event, while no step is in progress.
  void settle_deferred(JobId job, Nanos now);
  /// Reports as expired the deferred settings of the job that change steps, and those that await
  /// drain_unagreed(). Deferred assignments, with the settings that start with them, and
  /// checkpoints stay; a decision with another `if_epoch` expires when its step comes.
  void expire_settings(JobId job);
  /// Rejects the deferred and undrained decisions on a job that is over or has lost its GPUs; those
  /// past their expiry or epoch are reported as expired. Forgets the steps of next_effect() too.
  void reject_decisions(JobId job, Nanos now);
  /// Rejects all deferred and undrained decisions with `reason`, which must not be empty, and later
  /// every decision without another objection, agreed ones too. Cannot be undone; another call
  /// replaces the reason.
  void close(const std::string& reason);

  /// Result of next_effect() if no decision takes effect later.
  static constexpr Step kNoStep = ~Step{0};
  /// Returns the first Decision::at_step after `step` among the applied and deferred decisions on
  /// the job; kNoStep if none follows. Deferred decisions with `at_step` 0, which wait for the next
  /// step boundary, do not count: see has_waiting(). Neither do decisions that the ranks have not
  /// agreed on yet.
  Step next_effect(JobId job, Step step) const;
  /// Returns true if a decision on the job is deferred to a step boundary, the next or a later one.
  bool has_waiting(JobId job) const;

  /// Returns the next instant at which a policy wants to be called; kNever if none.
  Nanos next_wake() const { return wakes_.empty() ? kNever : *wakes_.begin(); }
  /// Removes the wake-up times up to `now`. Returns true if at least one was removed.
  bool pop_due_wakes(Nanos now);

 private:
  /// Result of the checks of a decision.
  struct Verdict {
    Outcome status = Outcome::applied;
    std::string reason = {};
    bool good() const { return status == Outcome::applied; }
  };
  /// Decisions that are checked together: one decision or a group, and the settings that start
  /// with its assignment.
  struct Unit {
    std::vector<Decision> core;
    std::vector<Decision> settings;
  };
  std::list<Unit> divide_into_units(const std::vector<Decision>& items) const;
  void place_left_setting(Decision setting, std::list<Unit>& units) const;
  bool leads_settings(const Decision& decision) const;
  Verdict judge_single(const Decision& decision, Nanos now) const;
  Verdict judge_group(std::span<const Decision> group, Nanos now) const;
  /// Both return the settings of the unit if its assignment is refused.
  std::vector<Decision> accept_group(const Unit& unit, Nanos now);
  std::vector<Decision> admit_decision(Unit unit, Nanos now);
  void settle_decision(const Decision& decision, const std::vector<Decision>& settings, Nanos now);
  bool is_deferred(const Decision& decision) const;
  void hold_from_now(const Decision& decision, const std::vector<Decision>& settings, Nanos now);
  std::vector<Decision> apply_settings(const std::vector<Decision>& settings, Nanos now);
  void apply_decision(const Decision& decision);
  std::vector<Decision> drain_pending(const std::function<bool(const Decision&)>& chosen);
  void emit_outcome(const Decision& decision, Verdict verdict);
  bool has_begun(const Decision& decision) const;

  World& world_;
  const Capabilities offered_;
  Carrier& carrier_;
  const bool agreement_;
  std::vector<Decision> unagreed_;            ///< must be proposed to the ranks
  std::vector<Unit> held_;                    ///< single decisions, deferred until a step boundary
  std::set<std::pair<JobId, Step>> effects_;  ///< applied decisions and their first step
  std::set<Nanos> wakes_;
  std::string closed_;  ///< argument of close(); empty: open
};

}  // namespace orrery

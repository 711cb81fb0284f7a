// Course of a decision, the same in every backend: announced, then checked against its expiry, the
// job's epoch, World, the run's offers and the backend's limits; deferred until its step; reported
// as a Decided event, once. Backends say which decisions they refuse and carry out the accepted
// ones. One thread, the one that runs drive().
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Backend's side of the gate.
class Carrier {
 public:
  virtual ~Carrier() = default;
  /// Returns the reason why this run cannot carry out the decision, beyond World's objections and
  /// the run's offers; empty if it can.
  virtual std::string refusal(const Decision& decision) const = 0;
  /// Returns true if a step of the job is in progress.
  virtual bool is_step_open(JobId job) const = 0;
  /// Applies an event of this instant to the world and shows it with the next observation.
  virtual void emit_event(Event event) = 0;
  /// Carries out an accepted decision, whose Decided event has happened: from its step on, or at
  /// once.
  virtual void carry_out(const Decision& decision) = 0;
};

/// State machine of all decisions of a run. Not thread-safe. For example, Configure with `at_step`
/// 7 is announced, deferred while step 6 runs, checked, reported as applied and carried out before
/// step 7.
class DecisionGate {
 public:
  /// Constructs a gate. `world` and `carrier` must outlive it. `agreement`: decisions that all
  /// ranks of a job must follow from one step on are first proposed to the ranks; the backend then
  /// calls apply_agreed() or membership_changed().
  DecisionGate(World& world, Capabilities offered, Carrier& carrier, bool agreement = false)
      : world_(world), offered_(offered), carrier_(carrier), agreement_(agreement) {}

  /// Accepts the decisions of one observation: checks each, and applies, defers or rejects it.
  void accept_decisions(const DecisionList& decisions, Nanos now);
  /// Continues with decisions that an earlier controller has already announced.
  void resume_decisions(const std::vector<Decision>& decisions, Nanos now);
  /// Adds a wake-up time.
  void wake(Nanos at) { wakes_.insert(at); }
  /// Returns the instants at which policies want to be called.
  const std::set<Nanos>& wake_times() const { return wakes_; }
  /// Records that an earlier controller has applied a decision on `job` from `step` on.
  void expect_effect(JobId job, Step step) { effects_.emplace(job, step); }

  /// Returns the decisions that must be proposed to the ranks, once. The backend owns them until
  /// apply_agreed().
  std::vector<Decision> take_unagreed() { return std::exchange(unagreed_, {}); }
  /// Returns true if decisions must be proposed to the ranks.
  bool has_unagreed() const { return !unagreed_.empty(); }
  /// Applies a decision on which all ranks agreed.
  void apply_agreed(const Decision& decision, Nanos now);
  /// Defers a decision again, because a change of membership prevented the agreement.
  void not_agreed(const Decision& decision);

  /// Applies the decisions that waited for this step boundary. Call after the job's StepsDone
  /// event, while no step is in progress.
  void step_ended(JobId job, Nanos now);
  /// Drops the settings of the job that wait for a step, and those that the backend is proposing to
  /// its ranks. A waiting assignment stays, unless its if_epoch says otherwise.
  void membership_changed(JobId job);
  /// Rejects everything that waits for a job that is over or has left.
  void job_gone(JobId job, Nanos now);
  /// Rejects everything that waits, and all later decisions, with `reason`.
  void close(const std::string& reason);

  /// Result of next_effect() if no decision takes effect later.
  static constexpr Step kNoStep = ~Step{0};
  /// Returns the first step after `step` from which a decision on the job is valid; kNoStep if none
  /// is.
  Step next_effect(JobId job, Step step) const;
  /// Returns true if a decision waits for the end of the job's current step.
  bool has_waiting(JobId job) const;

  /// Returns the next instant at which a policy wants to be called; kNever if none.
  Nanos next_wake() const { return wakes_.empty() ? kNever : *wakes_.begin(); }
  /// Returns true if a wake-up time has come, and forgets those up to `now`.
  bool pop_due_wakes(Nanos now);

 private:
  /// Result of the checks of a decision.
  struct Verdict {
    Outcome status = Outcome::applied;
    std::string reason = {};
    bool good() const { return status == Outcome::applied; }
  };
  Verdict judge_decision(const Decision& decision, Nanos now) const;
  Verdict judge_group(std::span<const Decision> group, Nanos now) const;
  void accept_group(std::vector<Decision> group, Nanos now);
  void admit_decision(const Decision& decision, Nanos now);
  void settle_decision(const Decision& decision, Nanos now);
  bool is_deferred(const Decision& decision) const;
  void hold_from_now(const Decision& decision);
  void emit_outcome(const Decision& decision, Verdict verdict);
  bool has_begun(const Decision& decision) const;

  World& world_;
  const Capabilities offered_;
  Carrier& carrier_;
  const bool agreement_;
  std::vector<Decision> unagreed_;
  std::vector<Decision> held_;                 ///< deferred until a step ends or begins
  std::set<std::pair<JobId, Step>> effects_;   ///< applied decisions and their first step
  std::set<Nanos> wakes_;
  std::string closed_;  ///< reason why no decision can be applied any more; empty: none
};

}  // namespace orrery

// What becomes of a decision, the same in every backend: announced, then held against its expiry,
// the job's epoch, World, what the run offers and what the backend cannot do; put off until its
// step; told as a Decided event, once. Backends say what they cannot do (refusal) and carry out
// what holds; nothing else of it is theirs. One thread, the one that runs drive().
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// The backend's side of the gate.
class Carrier {
 public:
  virtual ~Carrier() = default;
  /// What this run cannot do, beyond World's objection and what it offers; empty: nothing.
  virtual std::string refusal(const Decision& decision) const = 0;
  /// A step of that job is under way.
  virtual bool step_open(JobId job) const = 0;
  /// An event of this instant: applies it to the world and shows it with the next observation.
  virtual void happen(Event event) = 0;
  /// It holds (its Decided has happened): from its step on, or at once.
  virtual void carry_out(const Decision& decision) = 0;
};

class DecisionGate {
 public:
  /// `world` and `carrier` outlive this. `agreement`: what all ranks of a job must follow from one
  /// step on is put to them first; the backend calls agreed() or membership_changed().
  DecisionGate(World& world, Capabilities offered, Carrier& carrier, bool agreement = false)
      : world_(world), offered_(offered), carrier_(carrier), agreement_(agreement) {}

  void take(const DecisionList& decisions, Nanos now);
  /// The same for decisions that have been announced already, by whoever went before.
  void resume(const std::vector<Decision>& decisions, Nanos now);
  void wake(Nanos at) { wakes_.insert(at); }
  /// Instants that policies want to be called at.
  const std::set<Nanos>& wakes() const { return wakes_; }
  /// A decision of whoever went before has been applied, and holds from that step on.
  void expect(JobId job, Step step) { effects_.emplace(job, step); }

  /// Decisions that wait to be put to the ranks; they are the backend's until agreed().
  std::vector<Decision> take_unagreed() { return std::exchange(unagreed_, {}); }
  bool has_unagreed() const { return !unagreed_.empty(); }
  void agreed(const Decision& decision, Nanos now);
  /// Not agreed upon, because the membership has changed.
  void not_agreed(const Decision& decision);

  /// The job has committed a step (its StepsDone has happened), and none is under way.
  void step_ended(JobId job, Nanos now);
  /// Settings that wait for a step of the job are void; so is what the backend still puts to its
  /// ranks. An assignment that waits is not, unless it says so by its if_epoch.
  void membership_changed(JobId job);
  /// The job is over or has left: whatever waits for it is rejected.
  void job_gone(JobId job, Nanos now);
  /// Everything that waits is rejected, and whatever may still come.
  void close(const std::string& reason);

  /// The first step after `step` from which a decision on the job holds; kNoStep: none.
  static constexpr Step kNoStep = ~Step{0};
  Step next_effect(JobId job, Step step) const;
  /// Something waits for the end of the job's step under way.
  bool waits(JobId job) const;

  /// The next instant that a policy wants to be called at; kNever: none.
  Nanos next_wake() const { return wakes_.empty() ? kNever : *wakes_.begin(); }
  /// Whether such an instant has come; those up to `now` are forgotten.
  bool wake_due(Nanos now);

 private:
  struct Verdict {
    Outcome status = Outcome::applied;
    std::string reason = {};
    bool good() const { return status == Outcome::applied; }
  };
  Verdict judge(const Decision& decision, Nanos now) const;
  Verdict judge_group(std::span<const Decision> group, Nanos now) const;
  void take_group(std::vector<Decision> group, Nanos now);
  void admit(const Decision& decision, Nanos now);
  void settle(const Decision& decision, Nanos now);
  bool put_off(const Decision& decision) const;
  void hold_from_now(const Decision& decision);
  void tell(const Decision& decision, Verdict verdict);
  bool begun(const Decision& decision) const;

  World& world_;
  const Capabilities offered_;
  Carrier& carrier_;
  const bool agreement_;
  std::vector<Decision> unagreed_;
  std::vector<Decision> held_;                 ///< until a step ends, or theirs begins
  std::set<std::pair<JobId, Step>> effects_;   ///< applied, from that step on
  std::set<Nanos> wakes_;
  std::string closed_;  ///< why nothing can hold any more
};

}  // namespace orrery

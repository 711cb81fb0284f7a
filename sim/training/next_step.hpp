// Next step of a training job: its duration under the current conditions, beside the jobs that
// share its links, and with changes during the step. Kept by a training run; one thread.
// Nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/contention/contention.hpp"
#include "sim/training/fit_cache.hpp"
#include "sim/training/job_faults.hpp"
#include "sim/training/job_in_world.hpp"

namespace orrery::sim {

/// Conditions and price of the step that a job is about to run. The order for each step:
/// enter_step(), begins_at(), update_contention(), then undisturbed_step() or with_changes().
class NextStep {
 public:
  /// Conditions that determine a step, apart from noise.
  struct Circumstances {
    estimates::HardwareState state;
    std::vector<std::uint32_t> shares;  ///< shares of the working replicas
    CollectiveTable collectives;
    CodecRules codecs;
    std::uint64_t company = 0;  ///< group of Contention
    friend bool operator==(const Circumstances&, const Circumstances&) = default;
  };

  /// Constructs the step; all arguments must outlive it. `full_detail`: every instant of a fault
  /// within a step is a change.
  NextStep(const JobInWorld& here, const FitCache& fits, JobFaults& faults,
           std::shared_ptr<Contention> contention, bool full_detail);

  /// Enters `step` at `now` and fixes its conditions, by the current fit, the faults, and the job's
  /// shares and settings in the world. Marks the faults in effect as felt. Returns true if the
  /// conditions differ from the previous ones, or no step was entered: then sets the collectives
  /// and codecs in the stepper, and enters contention with the new work. Otherwise changes nothing
  /// else. Call while no step is in progress and the job runs on the GPUs of the current fit
  /// (FitCache::now()), which is not checked.
  bool enter_step(Step step, Nanos now);
  /// Updates the group of jobs that share links in circumstances(). Returns true if the group or
  /// its work has changed since the last call. Call after enter_step(), when all other jobs of this
  /// instant have entered contention.
  bool update_contention();
  /// Sets the earliest begin of the step, for the jobs that share its links; ignored if the job is
  /// not in contention.
  void begins_at(Nanos at) { contention_->next_step(here_.id(), at); }
  /// Removes the job from contention: no step follows for now. enter_step() enters contention again
  /// only with other conditions; leave_step() forgets them.
  void leave_contention() { contention_->remove_job(here_.id()); }
  /// Removes the job from contention and forgets the conditions: circumstances() is null. Call when
  /// the job moves to another fit or leaves its GPUs.
  void leave_step();

  /// Returns the conditions of the newest enter_step(), valid until the next enter_step() or
  /// leave_step(); null before the first and after leave_step().
  const Circumstances* circumstances() const { return now_ ? &*now_ : nullptr; }

  /// Returns the step at `now` without changes during it: beside the jobs of its group, or alone.
  /// May simulate steps, also of the other jobs of the group. Call after enter_step(). Throws
  /// bad_input if the engine lacks room for the steps.
  std::shared_ptr<const estimates::SimulatedStep> undisturbed_step(Nanos now);
  /// Returns `step` begun at `now` with the changes during it, cut short at the first death of a
  /// working rank, or by a link that is down; equal to undisturbed_step() if nothing changes.
  /// `stretch`: see PlayedStep. Call as undisturbed_step(). Marks faults of ranks that do not work
  /// as spent (JobFaults::next_losses), no other ones. Throws bad_input as length_of() and
  /// undisturbed_step().
  std::shared_ptr<const estimates::SimulatedStep> with_changes(Step step, Nanos now,
                                                               const std::vector<double>& stretch);
  /// Returns the step time in seconds with the best shares at the current speeds; nothing if no
  /// conditions are fixed (circumstances() is null), the scenario gives no micro-batch time, or the
  /// job has several stages.
  std::optional<double> ideal_time() const;

 private:
  std::vector<estimates::Stepper::Change> changes_within(Step step, Nanos now,
                                                         Nanos duration) const;
  std::shared_ptr<const estimates::SimulatedStep> held_up(const estimates::SimulatedStep& what,
                                                          const estimates::SimulatedStep& beside);
  FittedJob& fit() const { return *fits_.now(); }

  const JobInWorld& here_;
  const FitCache& fits_;
  JobFaults& faults_;
  const std::shared_ptr<Contention> contention_;
  const bool full_detail_;
  std::optional<Circumstances> now_;
};

/// Returns the duration of `what`, run as `step` from `now` on. `stretch`: see PlayedStep; ignored
/// if the step is cut short. Throws bad_input if the step would end after more than 285 simulated
/// years, where the policy clock overflows.
Nanos length_of(const estimates::SimulatedStep& what, Step step, Nanos now,
                const std::vector<double>& stretch);

}  // namespace orrery::sim

// Next step of a training job: its duration under the current conditions, beside the jobs that
// share its links, and with changes during the step. Kept by a training run; one thread.
// Nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/jobs/contention.hpp"
#include "sim/jobs/fit_cache.hpp"
#include "sim/jobs/job_faults.hpp"
#include "sim/jobs/job_in_world.hpp"

namespace orrery::sim {

/// Conditions and price of the step that a job is about to run.
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

  /// Enters `step` at `now` and fixes its conditions. Marks the faults in effect as felt. Returns
  /// true if the conditions differ from the previous ones, or no step was entered: then sets these
  /// in the stepper, and enters contention.
  bool enter_step(Step step, Nanos now);
  /// Updates the group of jobs that share links. Returns true if the group or its work has changed.
  /// Call after enter_step().
  bool update_contention();
  /// Sets the earliest begin of the step, for the jobs that share its links.
  void begins_at(Nanos at) { contention_->next_step(here_.id(), at); }
  /// Removes the job from contention: no step follows for now. enter_step() enters contention again
  /// only with other conditions; leave_step() forgets them.
  void leave_contention() { contention_->remove_job(here_.id()); }
  /// Removes the job from contention and forgets the conditions.
  void leave_step();

  /// Returns the conditions after enter_step(); null before.
  const Circumstances* circumstances() const { return now_ ? &*now_ : nullptr; }

  /// Returns the step at `now` without changes during it. Call after enter_step().
  std::shared_ptr<const estimates::SimulatedStep> undisturbed_step(Nanos now);
  /// Returns the step at `now` with the changes during it, cut short at the first death of a
  /// working rank; `stretch`: see PlayedStep. Call after enter_step(). Throws bad_input as
  /// length_of().
  std::shared_ptr<const estimates::SimulatedStep> with_changes(Step step, Nanos now,
                                                               const std::vector<double>& stretch);
  /// Returns the step time in seconds with the best shares at the current speeds; nothing if the
  /// step is not entered, the micro-batch times are unknown, or the job has several stages.
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
/// if the step is cut short. Throws bad_input if the policy clock would overflow.
Nanos length_of(const estimates::SimulatedStep& what, Step step, Nanos now,
                const std::vector<double>& stretch);

}  // namespace orrery::sim

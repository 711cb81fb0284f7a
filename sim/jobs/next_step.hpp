// The step that a training job is about to work on: what it takes under the circumstances of now,
// beside the jobs that it meets on links, and with what changes while it goes on. Kept by a
// training run; one thread. Nanoseconds of the policy clock.
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

class NextStep {
 public:
  /// What decides how a step goes, apart from noise.
  struct Circumstances {
    estimates::HardwareState state;
    std::vector<std::uint32_t> shares;  ///< of the replicas that work
    CollectiveTable collectives;
    CodecRules codecs;
    std::uint64_t company = 0;  ///< of Contention
    friend bool operator==(const Circumstances&, const Circumstances&) = default;
  };

  /// All outlive this. `full_detail`: every instant of a fault within a step is a change.
  NextStep(const JobInWorld& here, const FitCache& fits, JobFaults& faults,
           std::shared_ptr<Contention> contention, bool full_detail);

  /// Before `step`, at `now`: what holds then holds from now on. True if something else did.
  bool enter(Step step, Nanos now);
  /// Whom it meets. True if it has met others, or they did something else.
  bool meet();
  /// It begins then at the earliest: those whom it meets wait for that.
  void begins_at(Nanos at) { contention_->next_step(here_.id(), at); }
  /// No step follows for now: nobody meets it.
  void stand_still() { contention_->leave(here_.id()); }
  /// The same, and what held does not any more.
  void leave();

  /// Since it has entered; null before.
  const Circumstances* circumstances() const { return now_ ? &*now_ : nullptr; }

  // Once it has entered.
  /// The step at `now` if nothing happens in it.
  std::shared_ptr<const estimates::SimulatedStep> undisturbed(Nanos now);
  /// The step at `now` with what happens during it; `stretch`: as of PlayedStep.
  std::shared_ptr<const estimates::SimulatedStep> with_changes(Step step, Nanos now,
                                                               const std::vector<double>& stretch);
  /// What the fastest sharing of micro-batches would take at the speeds of now, seconds; nothing:
  /// it has not entered, or it is not known what a micro-batch takes.
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

/// How long `step` takes from `now` on. Throws bad_input where the policy clock would run out.
Nanos length_of(const estimates::SimulatedStep& what, Step step, Nanos now,
                const std::vector<double>& stretch);

}  // namespace orrery::sim

// Steps of a training job along the policy clock: the current step, and stretches of equal steps
// that are advanced at once while no policy observes them and nothing can differ. A stretch ends
// early when an event happens elsewhere. Driven by a training run, its owner, which receives the
// results. One thread. Nanoseconds of the policy clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/training/checkpoint_writer.hpp"
#include "sim/training/exchange_meter.hpp"
#include "sim/training/fit_cache.hpp"
#include "sim/training/job_faults.hpp"
#include "sim/training/job_in_world.hpp"
#include "sim/training/losses.hpp"
#include "sim/training/next_step.hpp"
#include "sim/training/sim_timeline.hpp"
#include "sim/training/training_books.hpp"
#include "sim/world/job_model.hpp"

namespace orrery::sim {

/// Sequence of the steps of one job. At each instant either a single step is in progress, or a
/// stretch of equal steps, or neither (is_idle()). For each step: enter_step(), begin_steps(),
/// then close_step() at end() for a single step, or settle_steps() for a stretch.
class StepSequence {
 public:
  using Watch = JobModel::Watch;

  /// Owner of a sequence: knows all other causes of change, and reacts to the end of steps.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Returns the first step after `step` at which conditions may change or a checkpoint of the
    /// plan is due, or the number of steps of the job if that comes first.
    virtual Step next_boundary(Step step) const = 0;
    /// Returns the first instant from now on at which conditions may change, apart from begins and
    /// ends of faults; kNever if none follows.
    virtual Nanos next_interruption(const Watch& watch) const = 0;
    /// Called after all steps before step() are committed in the books, while no step is in
    /// progress. `tell`: policies must be informed now, by tell_committed().
    virtual void on_committed(bool tell) = 0;
    /// Called before on_committed() of a step whose lost packets stall the job for `by`.
    virtual void on_stalled(Nanos by) = 0;
    /// Called after a step that will not be committed; no step is in progress.
    virtual void on_cut(const estimates::PlayedStep& played) = 0;
  };
  /// References to collaborators; each must outlive the sequence.
  struct Parts {
    const JobInWorld& here;
    const FitCache& fits;
    const Losses& losses;
    JobFaults& faults;
    NextStep& next;
    TrainingBooks& books;
    CheckpointWriter& saving;
    SimTimeline* timeline;  ///< null: no timeline
  };
  /// Constructs a sequence at instant 0 and step 0 without a step in progress. `owner` must outlive
  /// the sequence. `full_detail`: each step is simulated separately, so that no stretch begins.
  StepSequence(const Parts& parts, Owner& owner, bool full_detail);

  Nanos now() const { return now_; }  ///< clock of the sequence
  /// Sets the clock to `now`, which is at most end(); begins and ends no step. Call settle_steps()
  /// first if a stretch is in progress.
  void set_clock(Nanos now) { now_ = now; }
  Step step() const { return step_; }  ///< current step, or the next one
  /// Rolls the job back: `step`, at most step(), becomes the next step, and the steps from `step`
  /// on no longer count as committed, their work is lost (TrainingBooks::roll_back). Call after
  /// tell_committed(), while is_idle().
  void roll_back_to(Step step);
  /// Sets the milestones, which are called before time passes in noisy steps advanced at once, and
  /// must outlive the sequence.
  void set_milestones(Milestones& milestones) { milestones_ = &milestones; }
  /// Sets the clock to `now` and the next step to `step`; begins no step. Call while is_idle().
  void start_from(Nanos now, Step step) { now_ = now, step_ = step; }
  /// Enters and begins the current step as of `began`, as enter_step() and begin_steps() of a
  /// single step, unless the step would be over by now(): then no step is in progress. Drops the
  /// fault reports due by now(), which a log has shown. Call as enter_step(). Does not change
  /// now(). Throws as begin_steps().
  void restart_current_step(Nanos began);

  /// Returns true if neither a single step nor a stretch is in progress.
  bool is_idle() const { return !open_ && !stretch_; }
  /// Returns true if a single step is in progress; false during a stretch.
  bool is_step_open() const { return open_.has_value(); }
  /// Returns the end of the current step or stretch; kNever if none is in progress.
  Nanos end() const;
  /// Returns true if the policies' promise covers the next steps: they rest, is_unchanged() is
  /// true, the run is not in full detail, and no noise varies step times that the policies read.
  bool is_resting(const Watch& watch) const;
  /// Returns true if the policies have seen a whole step under the current conditions, or read
  /// neither telemetry nor step times.
  bool is_unchanged(const Watch& watch) const {
    return watched_ || !(watch.reads || watch.step_times);
  }

  /// Fixes the conditions of the next step at now() (NextStep::enter_step), and schedules reports
  /// of parts that its faults change. If the conditions differ from those of the last step,
  /// policies have not seen a whole step under them (is_unchanged()). Call before begin_steps(),
  /// while is_idle() and while the job runs on the GPUs of the current fit (FitCache::now()), which
  /// is not checked: with another fit the step is undefined.
  void enter_step();
  /// Begins the next step, or a stretch if is_resting(), a step was committed after every loss, and
  /// at least one step is free of changes, losses, and requested checkpoints; call after
  /// enter_step(), while is_idle(). Simulates steps that are not cached, and books all time up to
  /// now() (TimeLedger::interrupt_at). With a single step, a requested checkpoint becomes due at
  /// its end, and reports and stalls by the faults of its duration are scheduled. Steps with noise
  /// that no event interrupts are committed at once instead of in a stretch, under the same
  /// conditions and if `watch.alone`: now() is then the end of the last one, on_committed() has
  /// been called, and no step is in progress. Throws bad_input if the policy clock would overflow,
  /// or if the engine lacks room for the step.
  void begin_steps(const Watch& watch);
  /// Ends the stretch in progress at `now`, from now() to end(): commits the steps that ended by
  /// `now`, and continues a step within as a single step of the same duration. Sets now() to `now`.
  /// Calls on_committed() if steps ended, with `tell` only if the last one ended at `now`; with
  /// `step_times` in the watch of begin_steps(), reports the ended steps before the step within
  /// continues. Does nothing without a stretch.
  void settle_steps(Nanos now);
  /// Ends the single step in progress, whose end() is now(): commits the step, and calls
  /// on_stalled() if lost packets stall the job, then on_committed(); or, if a fault cut the step
  /// short, books its GPU time as lost work and calls on_cut() only: step() stays. Call only if
  /// is_step_open().
  void close_step(const Watch& watch);
  /// Drops the single step in progress: books its GPU time up to now() as lost work and its
  /// completed micro-batches as recomputed. step() stays, so that the step is repeated. Calls no
  /// function of the owner. Does nothing without a single step; settle a stretch first.
  void abandon_step();
  /// Emits one StepsDone for all committed steps that have not been reported yet; nothing if no
  /// such step exists. Steps of a stretch in progress are not committed.
  void tell_committed();

  /// Returns the number of steps of the stretch that have ended by `now`, which is at least now(),
  /// and are not in the metrics; 0 without a stretch.
  std::uint64_t gone_by(Nanos now) const { return stretch_ ? stretch_->ended_by(now) : 0; }
  /// Appends the sample of the newest committed step (ExchangeMeter); nothing if the current fit
  /// has one replica, before the first commit, or if the exchange was hidden completely.
  void collectives(std::vector<CollectiveSample>& out) const;

 private:
  /// Equal steps that are advanced together, as many as no event interrupts.
  struct Stretch {
    std::shared_ptr<const estimates::SimulatedStep> each;
    Nanos began = 0, length = 0;  ///< times of one step
    std::uint64_t count = 0;
    Nanos end() const { return began + length * static_cast<Nanos>(count); }
    std::uint64_t ended_by(Nanos at) const {
      return std::min(count, static_cast<std::uint64_t>((at - began) / std::max<Nanos>(length, 1)));
    }
  };
  /// Committed steps that have not been reported.
  struct Untold {
    std::uint64_t count = 0;
    Nanos duration = 0;
  };

  FittedJob& fit() const { return *parts_.fits.now(); }
  Nanos next_interruption(const Watch& watch) const;
  bool skip_ahead(const Watch& watch);
  bool skip_noisy(const std::shared_ptr<const estimates::SimulatedStep>& each, const Watch& watch);
  void record_gone_steps(const std::shared_ptr<const estimates::SimulatedStep>& each,
                         std::uint64_t count, Nanos took, Nanos last, bool tell);
  void open_next();
  void open_current(std::shared_ptr<const estimates::SimulatedStep> what,
                    std::vector<double> stretch);
  void commit_steps(const estimates::SimulatedStep& each, Nanos duration, std::uint64_t count,
              const std::vector<double>& stretch);
  void done(std::uint64_t count, Nanos duration, bool tell);

  const Parts parts_;
  Owner& owner_;
  const bool full_detail_;
  bool tells_all_ = false;  ///< true if steps of unequal duration are reported one by one
  Milestones* milestones_ = nullptr;
  Nanos now_ = 0;
  Step step_ = 0;
  bool watched_ = false;  ///< true if policies have seen a whole step under the current conditions
  std::optional<estimates::PlayedStep> open_;
  std::optional<Stretch> stretch_;
  Untold untold_;
  Nanos stalled_ = 0;  ///< stall of the current step by lost packets
  ExchangeMeter exchange_;
};

}  // namespace orrery::sim

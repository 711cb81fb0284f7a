// The steps of a training job along the policy clock: the one under way, and equal ones that go by
// at once where nobody watches and nothing can differ: as one stretch, which ends early when
// something happens elsewhere. Driven by a training run, its owner, which is told what came of
// them. One thread. Nanoseconds of the policy clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/jobs/checkpoint_writer.hpp"
#include "sim/jobs/exchange_meter.hpp"
#include "sim/jobs/fit_cache.hpp"
#include "sim/jobs/job_faults.hpp"
#include "sim/jobs/job_in_world.hpp"
#include "sim/jobs/losses.hpp"
#include "sim/jobs/next_step.hpp"
#include "sim/jobs/sim_timeline.hpp"
#include "sim/jobs/training_books.hpp"
#include "sim/world/job_model.hpp"

namespace orrery::sim {

class StepSequence {
 public:
  using Watch = JobModel::Watch;

  /// Who knows what else could matter to a step, and goes on when one has ended.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// The first step after `step` at which something may differ, or the end.
    virtual Step next_boundary(Step step) const = 0;
    /// The first instant from now on at which something may differ, not counting faults.
    virtual Nanos next_interruption(const Watch& watch) const = 0;
    /// All steps before step() are committed; `tell`: policies are to hear of them now.
    virtual void committed(bool tell) = 0;
    /// A step has been committed, and the job waits so long for packets that got lost in it.
    virtual void stalled(Nanos by) = 0;
    /// A step has ended that will not be committed.
    virtual void cut(const estimates::PlayedStep& played) = 0;
  };
  /// What a step needs and tells; all outlive this.
  struct Parts {
    const JobInWorld& here;
    const FitCache& fits;
    const Losses& losses;
    JobFaults& faults;
    NextStep& next;
    TrainingBooks& books;
    CheckpointWriter& saving;
    SimTimeline* timeline;  ///< null: without one
  };
  /// `full_detail`: each step is looked at.
  StepSequence(const Parts& parts, Owner& owner, bool full_detail);

  Nanos now() const { return now_; }
  void pass_to(Nanos now) { now_ = now; }
  Step step() const { return step_; }  ///< being worked on, or about to begin
  void roll_back_to(Step step);
  /// Asked before time passes in steps that are advanced at once.
  void heed(Milestones& milestones) { milestones_ = &milestones; }
  /// At `step`, which begins anew; nothing has been done before.
  void go_on(Nanos now, Step step) { now_ = now, step_ = step; }
  /// The step under way now began at `began`, if it would not have been over by now.
  void reopen(Nanos began);

  /// Neither is a step under way nor do some go by.
  bool idle() const { return !open_ && !stretch_; }
  bool open() const { return open_.has_value(); }
  /// When what is under way ends; kNever: nothing is.
  Nanos end() const;
  bool rests(const Watch& watch) const;
  /// Under circumstances of which the policies have seen a whole step, if they look at all.
  bool as_they_were(const Watch& watch) const { return watched_ || !watch.reads; }

  /// Between two steps: takes in what holds now.
  void enter();
  void begin(const Watch& watch);
  /// Whole steps are done; the one under way may end otherwise than those before.
  void settle(Nanos now);
  /// The step under way ends now.
  void close(const Watch& watch);
  /// Nothing of the step under way counts.
  void give_up();
  /// Tells the world what is committed and has not been told.
  void tell();

  /// Steps that have gone by until `now` and are not in the books.
  std::uint64_t gone_by(Nanos now) const { return stretch_ ? stretch_->ended_by(now) : 0; }
  void collectives(std::vector<CollectiveSample>& out) const;

 private:
  /// Equal steps that go by without being looked at, as many as nothing interrupts.
  struct Stretch {
    std::shared_ptr<const estimates::SimulatedStep> each;
    Nanos began = 0, length = 0;  ///< of one step
    std::uint64_t count = 0;
    Nanos end() const { return began + length * static_cast<Nanos>(count); }
    std::uint64_t ended_by(Nanos at) const {
      return std::min(count, static_cast<std::uint64_t>((at - began) / std::max<Nanos>(length, 1)));
    }
  };
  /// That have been committed, but not told.
  struct Untold {
    std::uint64_t count = 0;
    Nanos duration = 0;
  };

  FittedJob& fit() const { return *parts_.fits.now(); }
  Nanos next_interruption(const Watch& watch) const;
  bool skip_ahead(const Watch& watch);
  bool skip_noisy(const std::shared_ptr<const estimates::SimulatedStep>& each, const Watch& watch);
  void gone(const std::shared_ptr<const estimates::SimulatedStep>& each, std::uint64_t count,
            Nanos took, Nanos last, bool tell);
  void open_next();
  void open(std::shared_ptr<const estimates::SimulatedStep> what, std::vector<double> stretch);
  void commit(const estimates::SimulatedStep& each, Nanos duration, std::uint64_t count,
              const std::vector<double>& stretch);
  void done(std::uint64_t count, Nanos duration, bool tell);

  const Parts parts_;
  Owner& owner_;
  const bool full_detail_;
  Milestones* milestones_ = nullptr;
  Nanos now_ = 0;
  Step step_ = 0;
  bool watched_ = false;  ///< a whole step has been shown under these circumstances
  std::optional<estimates::PlayedStep> open_;
  std::optional<Stretch> stretch_;
  Untold untold_;
  Nanos stalled_ = 0;  ///< what of the step under way waits for packets that got lost
  ExchangeMeter exchange_;
};

}  // namespace orrery::sim

// Access of a training job to its world: state of cluster and jobs, gate of its decisions, receiver
// of its events, jobs on the same links, and the prices of its steps. The functions of a job change
// its TrainingState and reach everything else through this object. One thread.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "policies/seam/gate.hpp"
#include "policies/seam/world.hpp"
#include "sim/contention/contention.hpp"
#include "sim/training/fit_cache.hpp"
#include "sim/training/sim_timeline.hpp"
#include "sim/training/training_setup.hpp"
#include "sim/world/job_model.hpp"

namespace orrery::sim {

/// Access of a training job to its world. All referenced objects must outlive this object.
class JobInWorld {
 public:
  /// Constructs the access without a timeline. `happen`: passes an event of the job to the backend.
  /// `contention`: shared by the training jobs of the world. `fits`: options and engine of the
  /// job's steps.
  JobInWorld(const TrainingSetup& setup, const World& world, DecisionGate& gate,
             JobModel::Happen happen, std::shared_ptr<Contention> contention,
             FittedJob::Ground fits)
      : setup_(setup),
        world_(world),
        gate_(gate),
        happen_(std::move(happen)),
        contention_(std::move(contention)),
        fits_(std::make_unique<FitCache>(std::move(fits))) {}

  /// Returns the constant description of the job.
  const TrainingSetup& setup() const { return setup_; }
  const Scenario& scenario() const { return setup_.scenario(); }
  const Survival& survival() const { return setup_.survival(); }
  /// Returns the cluster of the world.
  const Cluster& cluster() const { return *setup_.cluster; }
  /// Returns the state of cluster and jobs, with the job itself after its submission.
  const World& world() const { return world_; }
  /// Returns the gate, which holds the decisions about the job until they take effect.
  DecisionGate& gate() const { return gate_; }
  /// Returns the state of a job in the world; call after its submission.
  const JobInfo& job(JobId id) const { return world_.jobs()[id]; }
  /// Passes an event of the job to the backend, which applies the event to the world at once and
  /// shows it in the next observation. The backend first calls SteppedJob::emit_steps() of all
  /// models, unless the event is StepsDone. Throws an internal Error for an event that is
  /// impossible now (World::objection()).
  void emit_event(Event event) const { happen_(std::move(event)); }

  /// Returns the training jobs that share links.
  Contention& contention() const { return *contention_; }
  /// Returns the fits of the job to its placements, and thereby the prices of its steps. Equal
  /// questions get equal answers.
  FitCache& fits() const { return *fits_; }

  /// Returns the timeline of the job's steps; null: no timeline.
  SimTimeline* timeline() const { return timeline_.get(); }
  /// Sets the timeline. Call before the first step.
  void draw_on(std::unique_ptr<SimTimeline> timeline) { timeline_ = std::move(timeline); }
  /// Sets the milestones, which are called before time passes in noisy steps advanced at once, and
  /// must outlive this object.
  void set_milestones(Milestones& milestones) { milestones_ = &milestones; }
  /// Calls the milestones up to `next`, if any are set; returns as Milestones::reach_milestones().
  bool reach_milestones(Nanos next) const {
    return milestones_ != nullptr && milestones_->reach_milestones(next);
  }
  /// Sets the receiver of the progress, called after every commit; empty: none.
  void report_progress_to(std::function<void(Step, Nanos)> progress) {
    progress_ = std::move(progress);
  }
  /// Reports that all steps before `step` are committed at `now`.
  void report_progress(Step step, Nanos now) const {
    if (progress_) progress_(step, now);
  }

 private:
  const TrainingSetup& setup_;
  const World& world_;
  DecisionGate& gate_;
  const JobModel::Happen happen_;
  const std::shared_ptr<Contention> contention_;
  const std::unique_ptr<FitCache> fits_;
  std::unique_ptr<SimTimeline> timeline_;
  std::function<void(Step, Nanos)> progress_;
  Milestones* milestones_ = nullptr;
};

}  // namespace orrery::sim

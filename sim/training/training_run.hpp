// One training job of a simulated world, as the backend sees it: a constant description
// (TrainingSetup), all that changes (TrainingState), the access to the world (JobInWorld), and the
// order in which the functions of the job are called. One thread. The policy clock is in
// nanoseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "policies/record/past.hpp"
#include "policies/run/worker.hpp"
#include "sim/contention/contention.hpp"
#include "sim/training/job_in_world.hpp"
#include "sim/training/step_commits.hpp"
#include "sim/training/step_sequence.hpp"
#include "sim/training/training_setup.hpp"
#include "sim/training/training_state.hpp"
#include "sim/world/job_model.hpp"
#include "traces/run.pb.h"

namespace orrery::sim {

class SimBackend;

/// Model of one training job.
class TrainingRun : public JobModel,
                    public SteppedJob,
                    public BranchingJob,
                    public SampledJob {
 public:
  using Watch = JobModel::Watch;
  using Arrival = TrainingSetup::Arrival;

  /// Constructs the job of the request's scenario, not submitted yet, and creates the timeline, if
  /// the request names one. `world`: the world to which the job is added next (SimBackend::add()),
  /// and which must outlive the job; `engine`: the process's only one, with room for all jobs;
  /// `contention`: shared by all training jobs of the world. Throws bad_input if the job does not
  /// fit the cluster, or the memory of its GPUs unless `run.memory` is "warn", if the GPU lacks the
  /// job's precision, or if the engine lacks room; throws as FaultPlan and as SimTimeline. An empty
  /// `progress` is not called.
  TrainingRun(RunRequest request, const Arrival& arrival, SimBackend& world,
              estimates::EngineFactory engine, std::shared_ptr<Contention> contention,
              ProgressSink progress);
  ~TrainingRun() override;

  void prepare_job(const Needs& needs) override;
  /// Sets the clock to `now`. Between two steps, activates a pending assignment that is ready; if a
  /// step can begin, fixes its conditions and enters contention. A step waits for the answer of
  /// policies that are `asked`, once, for run.policy_time. Does nothing more before the
  /// submission, after the end, or during a step.
  void announce_work(Nanos now, bool asked) override;
  /// Begins the next step or stretch if announce_work() has entered a step; otherwise does nothing.
  /// Throws as begin_steps().
  void begin(Nanos now, const Watch& watch) override;
  /// Returns the submission before the job is submitted; later the end of the current step or
  /// stretch, a change of the placement state, a report of faults, or the end of a checkpoint,
  /// whichever is first; kNever after the end of the job.
  Nanos next_event_time() const override;
  void settle_until(Nanos now) override { settle_steps(here_, state_, now); }
  /// In the first call submits the job, and places it if its first GPUs are free. Later ends the
  /// step that is over, applies faults, emits due events, and handles losses, in this order. Ends
  /// the job as completed after its last step, and as failed if a link of the job never comes up
  /// again, or if the job loses ranks faster than it recovers (is_given_up()).
  void advance_to(Nanos now, const Watch& watch) override;
  void emit_steps() override { tell_committed(here_, state_); }
  Nanos last_commit() const override { return state_.metrics.last_commit(); }
  Nanos now() const override { return state_.now; }
  bool is_over() const override { return state_.metrics.is_over(); }

  bool is_step_open() const override { return state_.open.has_value(); }
  bool is_watched(const Watch& watch) const override {
    return state_.open && !is_resting(setup_, state_, watch);
  }
  bool is_unchanged(const Watch& watch) const override {
    return sim::is_unchanged(state_, watch);
  }
  std::string refusal(const Decision& decision) const override;
  /// Carries out Save, at the end of the next step that begins, and Assign: a release at once,
  /// other assignments between two steps, once they are ready; an assignment that gives up working
  /// ranks drops the current step at once. Settings take effect by the state of the job in the
  /// world. Call settle_until() first: no stretch may be in progress.
  void carry_out(const Decision& decision, Nanos now) override;

  void set_milestones(Milestones& milestones) override { here_.set_milestones(milestones); }
  /// Draws the noise from `from` on with a seed that follows from `seed` and the job's number.
  void reseed_noise(Nanos from, std::uint64_t seed) override;
  /// Continues at the end of the log, as a job that is submitted already, at its current step,
  /// which begins as of the newest commit of the log if the job runs and no rank was lost since;
  /// without a commit, at the log's last instant. A checkpoint that was being written is dropped,
  /// and a pending assignment is ready after the replacement time from then on. A job that has
  /// ended in the log, or that the log does not submit, is over. Call once, instead of the first
  /// advance_to(). Throws as begin_steps().
  void continue_from(const Past& past) override;

  // Telemetry of the fit. Rows and columns are empty while no conditions are fixed
  // (TrainingState::conditions), for example before the first step and after a move; collectives()
  // appends the sample of the newest committed step (append_exchange()).
  std::shared_ptr<const SampleRows> rows(SampleTable table, Nanos now) const override;
  void fill_column(SampleField field, Nanos now, SampleColumn& out) const override;
  void fill_rank(std::size_t row, Nanos now, RankSample& out) const override;
  void collectives(std::vector<CollectiveSample>& out) const override;

  /// Closes the timeline, if any, and writes the metrics; the number of completed steps includes
  /// those of the current stretch that have ended by `now`. Call once, at the end of the run.
  /// Throws an environment Error if the timeline could not be written.
  void fill(Report& report, Nanos now) override;
  /// Adds one entry; begin, end and steps only if the job has started.
  void add_outcomes(Report& report) const override;

  /// Returns all that changes while the job runs.
  const TrainingState& state() const { return state_; }

 private:
  JobSpec spec() const;
  /// Returns the time of a call of the policies; 0 without policies that decide.
  Nanos policy_time() const;
  void submit_job();

  const TrainingSetup setup_;
  JobInWorld here_;
  Needs needs_;  ///< needs of the policies
  TrainingState state_;
};

}  // namespace orrery::sim

// One training job of a simulated world. Its parts hold placement and losses (TrainingStanding,
// Losses), steps (StepSequence, NextStep), faults (JobFaults), checkpoints (CheckpointWriter) and
// metrics (TrainingBooks); this class connects them with the backend, which owns the clock and
// receives events. One thread. The policy clock is in nanoseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policies/record/past.hpp"
#include "policies/run/worker.hpp"
#include "policies/seam/gate.hpp"
#include "sim/jobs/checkpoint_writer.hpp"
#include "sim/jobs/contention.hpp"
#include "sim/jobs/fit_cache.hpp"
#include "sim/jobs/job_faults.hpp"
#include "sim/jobs/job_in_world.hpp"
#include "sim/jobs/losses.hpp"
#include "sim/jobs/next_step.hpp"
#include "sim/jobs/sim_timeline.hpp"
#include "sim/jobs/step_sequence.hpp"
#include "sim/jobs/training_books.hpp"
#include "sim/jobs/training_standing.hpp"
#include "sim/world/job_model.hpp"
#include "traces/run.pb.h"

namespace orrery::sim {

/// Model of one training job.
class TrainingRun : public JobModel, private StepSequence::Owner {
 public:
  /// Submission of the job, and its first placement. Without a placement, or if its GPUs are taken,
  /// the job waits until a policy assigns it.
  struct Arrival {
    Nanos at = 0;
    std::optional<std::uint32_t> first_gpu = {};
    std::uint32_t number = 0;  ///< index among the scenario's jobs, for different noise
  };
  /// Objects shared with the other jobs of the world; each must outlive the job.
  struct Place {
    const Cluster& cluster;
    const World& world;
    DecisionGate& gate;
    estimates::EngineFactory engine;         ///< the process's only one, with room for all jobs
    std::shared_ptr<Contention> contention;  ///< among the training jobs
  };

  /// Constructs the job of the request's scenario, not submitted yet, and creates the timeline, if
  /// the request names one. Throws bad_input if the job does not fit the cluster, or the memory of
  /// its GPUs unless `run.memory` is "warn", if the GPU lacks the job's precision, or if the engine
  /// lacks room; throws as FaultPlan and as SimTimeline. An empty `progress` is not called.
  TrainingRun(RunRequest request, const Arrival& arrival, const Place& place, Happen happen,
              ProgressSink progress);
  ~TrainingRun() override;

  void prepare_job(const Needs& needs) override { needs_ = needs; }
  /// Sets the clock to `now`. Between two steps, activates a pending assignment that is ready; if a
  /// step can begin, fixes its conditions and enters contention. Does nothing more before the
  /// submission, after the end, or during a step.
  void announce_work(Nanos now) override;
  /// Begins the next step or stretch if announce_work() has entered a step; otherwise does nothing.
  /// Throws as StepSequence::begin_steps().
  void begin(Nanos now, const Watch& watch) override;
  /// Returns the submission before the job is submitted; later the end of the current step or
  /// stretch, a change of the placement state, a report of faults, or the end of a checkpoint,
  /// whichever is first; kNever after the end of the job.
  Nanos next_event_time() const override;
  void settle_until(Nanos now) override { steps_.settle_steps(now); }
  /// In the first call submits the job, and places it if its first GPUs are free. Later ends the
  /// step that is over, applies faults, emits due events, and handles losses, in this order. Ends
  /// the job as completed after its last step, and as failed if a link of the job never comes up
  /// again, or if the job loses ranks faster than it recovers (TrainingStanding::is_given_up).
  void advance_to(Nanos now, const Watch& watch) override;
  void emit_steps() override { steps_.tell_committed(); }
  Nanos now() const override { return steps_.now(); }
  bool is_over() const override { return books_.is_over(); }

  bool is_step_open(JobId) const override { return steps_.is_step_open(); }
  bool is_watched(const Watch& watch) const override {
    return steps_.is_step_open() && !steps_.is_resting(watch);
  }
  bool is_unchanged(const Watch& watch) const override { return steps_.is_unchanged(watch); }
  std::string refusal(const Decision& decision) const override;
  /// Carries out Save, at the end of the next step that begins, and Assign: a release at once,
  /// other assignments between two steps, once they are ready; an assignment that gives up working
  /// ranks drops the current step at once. Settings take effect by the state of the job in the
  /// world. Call settle_until() first: no stretch may be in progress.
  void carry_out(const Decision& decision, Nanos now) override;

  void set_milestones(Milestones& milestones) override { steps_.set_milestones(milestones); }
  /// Draws the noise from `from` on with a seed that follows from `seed` and the job's number.
  void reseed_noise(Nanos from, std::uint64_t seed) override;
  /// Continues at the end of the log, as a job that is submitted already, at its current step,
  /// which begins as of the newest commit of the log if the job runs and no rank was lost since;
  /// without a commit, at the log's last instant. A checkpoint that was being written is dropped,
  /// and a pending assignment is ready after the replacement time from then on. A job that has
  /// ended in the log, or that the log does not submit, is over. Call once, instead of the first
  /// advance_to(). Throws as StepSequence::begin_steps().
  void continue_from(const Past& past) override;

  // Append the samples; none before the first step. ranks(), devices() and links() append none
  // while no conditions are fixed (NextStep::circumstances), for example after a move;
  // collectives() appends the sample of the newest committed step (StepSequence::collectives).
  void fill_rows(SampleTable table, Nanos now, SampleRows& out) const override;
  void fill_column(SampleField field, Nanos now, SampleColumn& out) const override;
  void fill_rank(std::size_t row, Nanos now, RankSample& out) const override;
  void collectives(std::vector<CollectiveSample>& out) const override;

  /// Closes the timeline, if any, and writes the metrics; the number of completed steps includes
  /// those of the current stretch that have ended by `now`. Call once, at the end of the run.
  /// Throws an environment Error if the timeline could not be written.
  void fill(Report& report, Nanos now) override;
  /// Adds one entry; begin, end and steps only if the job has started.
  void add_outcomes(Report& report) const override;

 private:
  const JobInfo& job() const { return here_.job(); }
  const Scenario& scenario() const { return request_.scenario(); }
  FittedJob& fit() const { return *fits_.now(); }
  JobSpec spec() const;
  void submit_job();
  std::uint64_t noise_seed(std::uint64_t run) const;
  bool can_begin() const;
  void save_if_due();
  void emit_due_events();
  void end(Ending how);

  // Functions of StepSequence::Owner.
  Step next_boundary(Step step) const override;
  Nanos next_interruption(const Watch& watch) const override;
  void on_committed(bool tell) override;
  void on_stalled(Nanos by) override { standing_.stall_for(by); }
  void on_cut(const estimates::PlayedStep& played) override;

  const RunRequest request_;
  const Arrival arrival_;
  JobInWorld here_;
  ProgressSink progress_;
  Needs needs_;  ///< needs of the policies
  FitCache fits_;
  Losses losses_;
  JobFaults faults_;
  NextStep next_;
  TrainingBooks books_;
  CheckpointWriter saving_;
  const std::unique_ptr<SimTimeline> timeline_;  ///< null: no timeline
  StepSequence steps_;
  TrainingStanding standing_;
  bool submitted_ = false;
  std::optional<Step> delayed_;  ///< newest step whose Delay has begun
};

}  // namespace orrery::sim

// One training job of a simulated world. Its parts know where it stands and what it has lost
// (TrainingStanding, Losses), what its steps do (StepSequence, NextStep), what its faults do to it
// (JobFaults), what is saved (CheckpointWriter) and what it adds up to (TrainingBooks); here they
// meet the backend, which owns the clock and is told as events what has happened. One thread. The
// policy clock is in nanoseconds.
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

class TrainingRun : public JobModel, private StepSequence::Owner {
 public:
  /// When it is submitted, and where it starts then. Without a place, or if that is taken, it waits
  /// until a policy assigns it.
  struct Arrival {
    Nanos at = 0;
    std::optional<std::uint32_t> first_gpu = {};
    std::uint32_t number = 0;  ///< among the scenario's jobs: noise differs from one to the next
  };
  /// What it shares with the others of its world; all outlive it.
  struct Place {
    const Cluster& cluster;
    const World& world;
    DecisionGate& gate;
    estimates::EngineFactory engine;         ///< the process's one, with room for all
    std::shared_ptr<Contention> contention;  ///< among the training jobs
  };

  /// Throws bad_input if the job does not fit the cluster or the memory of its GPUs. The job is
  /// that of the request's scenario.
  TrainingRun(RunRequest request, const Arrival& arrival, const Place& place, Happen happen,
              ProgressSink progress);
  ~TrainingRun() override;

  void prepare(const Needs& needs) override { needs_ = needs; }
  void ready(Nanos now) override;
  void begin(Nanos now, const Watch& watch) override;
  Nanos next_stop() const override;
  void settle(Nanos now) override { steps_.settle(now); }
  void pass(Nanos now, const Watch& watch) override;
  void tell_steps() override { steps_.tell(); }
  Nanos now() const override { return steps_.now(); }
  bool over() const override { return books_.over(); }

  bool step_open(JobId) const override { return steps_.open(); }
  bool watched(const Watch& watch) const override { return steps_.open() && !steps_.rests(watch); }
  bool as_it_was(const Watch& watch) const override { return steps_.as_they_were(watch); }
  std::string refusal(const Decision& decision) const override;
  void carry_out(const Decision& decision, Nanos now) override;

  void heed(Milestones& milestones) override { steps_.heed(milestones); }
  void reseed(Nanos from, std::uint64_t seed) override;
  /// At the job's step, which begins anew. What was being written is not.
  void go_on(const Past& past) override;

  // Empty before the first step.
  void ranks(Nanos now, std::vector<RankSample>& out) const override;
  void devices(Nanos now, std::vector<DeviceSample>& out) const override;
  void links(Nanos now, std::vector<LinkSample>& out) const override;
  void collectives(std::vector<CollectiveSample>& out) const override;

  void fill(Report& report, Nanos now) override;
  void add_outcomes(Report& report) const override;

 private:
  const JobInfo& job() const { return here_.job(); }
  const Scenario& scenario() const { return request_.scenario(); }
  FittedJob& fit() const { return *fits_.now(); }
  JobSpec spec() const;
  void submit();
  std::uint64_t noise_seed(std::uint64_t run) const;
  bool can_begin() const;
  void save_if_due();
  void tell_due();
  void end(Ending how);

  // As the owner of its steps.
  Step next_boundary(Step step) const override;
  Nanos next_interruption(const Watch& watch) const override;
  void committed(bool tell) override;
  void stalled(Nanos by) override { standing_.stall(by); }
  void cut(const estimates::PlayedStep& played) override;

  const RunRequest request_;
  const Arrival arrival_;
  JobInWorld here_;
  ProgressSink progress_;
  Needs needs_;  ///< of the policies
  FitCache fits_;
  Losses losses_;
  JobFaults faults_;
  NextStep next_;
  TrainingBooks books_;
  CheckpointWriter saving_;
  const std::unique_ptr<SimTimeline> timeline_;  ///< null without one
  StepSequence steps_;
  TrainingStanding standing_;
  bool submitted_ = false;
};

}  // namespace orrery::sim

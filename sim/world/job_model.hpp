// Interfaces of the jobs in a simulated world: a training job, the jobs of a recorded log, or an
// execution trace. All models share one calendar: the backend asks each for its next event time,
// advances the clock to the earliest, and forwards every decision to the model of its job. Three
// further interfaces are for the models that need them. One thread. The policy clock is in
// nanoseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "policies/record/past.hpp"
#include "policies/seam/policy.hpp"
#include "policies/seam/sample_columns.hpp"
#include "sim/world/milestones.hpp"
#include "traces/report.pb.h"

namespace orrery::sim {

/// Model of one or several jobs in a simulated world. A model with steps, with continuations or
/// with telemetry also implements SteppedJob, BranchingJob or SampledJob; SimBackend::add() finds
/// these interfaces. For example, the jobs of a recorded log have none of the three.
class JobModel {
 public:
  /// State of the policies and of the rest of the world that limits how far a model may advance at
  /// once.
  struct Watch {
    bool resting = false;  ///< the policies would decide nothing
    bool reads = true;     ///< the policies read telemetry, or want ticks
    bool step_times = false;  ///< the policies decide by the durations of steps
    bool alone = true;     ///< no event outside this model before the policies' wake-ups
    Nanos limit = kNever;  ///< limit for advancing steps at once
  };
  /// Callback that reports an event to the backend.
  using Happen = std::function<void(Event)>;

  virtual ~JobModel() = default;
  /// Begins the work that can begin at `now`, and may advance a SteppedJob beyond `now`
  /// (SteppedJob::now()). Called after announce_work() of all models, also if nothing can begin.
  /// Throws bad_input if the policy clock would overflow or the work exceeds the engine's room.
  virtual void begin(Nanos now, const Watch& watch) = 0;
  /// Returns the next instant with an event of this model; kNever if none follows.
  virtual Nanos next_event_time() const = 0;
  /// Handles the events at `now`, which is next_event_time().
  virtual void advance_to(Nanos now, const Watch& watch) = 0;
  /// Returns true if all jobs of this model have ended. False for a job that waits for an
  /// assignment, even if no event follows.
  virtual bool is_over() const = 0;

  /// Returns the objection to a decision about a job of this model; empty if none exists. The job
  /// has been submitted.
  virtual std::string refusal(const Decision& decision) const = 0;
  /// Carries out a decision to which neither the gate nor refusal() has an objection. Called only
  /// while no steps that are advanced together are in progress (SteppedJob::settle_until()). A
  /// setting may name a later step, from which on the model applies it.
  virtual void carry_out(const Decision& decision, Nanos now) = 0;

  /// Writes the metrics of the whole run, with the steps that have ended by `now`, into the report.
  /// Called once, after the last event of the run, for the first model of a world only.
  virtual void fill(Report& report, Nanos now) = 0;
  /// Adds one entry for each job to `report.jobs`. Called after fill(), for all models of a world
  /// with several.
  virtual void add_outcomes(Report& report) const = 0;
};

/// Interface of a model whose job works in steps, which the policies may observe and settings
/// change. Steps that no policy observes may be advanced at once.
class SteppedJob {
 public:
  using Watch = JobModel::Watch;

  virtual ~SteppedJob() = default;
  /// Receives the needs of the policies; called before begin(), and again if other policies take
  /// over.
  virtual void prepare_job(const Needs& needs) = 0;
  /// Prepares the work that could begin at `now`: applies changes that wait for this, and announces
  /// the work to jobs that share links with it. `asked`: the policies have been called at `now`,
  /// and not only about known steps while they rest.
  /// Called for all models before any begin() of this instant.
  virtual void announce_work(Nanos now, bool asked) = 0;
  /// Advances the state to `now` <= next_event_time(), because an event happens elsewhere that may
  /// change the course of this model, or decisions follow at `now`. Steps that were advanced
  /// together are committed up to `now`.
  virtual void settle_until(Nanos now) = 0;
  /// Reports committed steps that have not been reported yet, as StepsDone events; nothing if there
  /// are none. The backend calls this function before it applies an event of another kind.
  virtual void emit_steps() = 0;
  /// Returns the instant of the newest commit of steps; 0 before the first.
  virtual Nanos last_commit() const = 0;
  /// Returns the instant up to which this model has advanced: later than the backend's clock if
  /// steps were advanced at once.
  virtual Nanos now() const = 0;

  /// Returns true if a single step of the job is in progress, at whose end deferred decisions are
  /// due; false while steps are advanced together.
  virtual bool is_step_open() const = 0;
  /// Returns true if something is in progress that the policies may want to observe: ticks happen
  /// only while a model of the world returns true.
  virtual bool is_watched(const Watch& watch) const = 0;
  /// Returns true if the policies have seen a whole step since the conditions of the steps (faults,
  /// shares, settings, jobs on the same links) last changed, or if they read neither telemetry nor
  /// step times: further steps show them nothing new.
  virtual bool is_unchanged(const Watch& watch) const = 0;
};

/// Interface of a model whose run can fork, or can continue from a log. Without it, a run forks if
/// the model has no randomness, and continues from no log.
class BranchingJob {
 public:
  virtual ~BranchingJob() = default;
  /// Receives the milestones, which the model must call before time passes in steps advanced at
  /// once. `milestones` outlives the model. Called before begin() if the run forks or continues
  /// from a log, perhaps twice with the same milestones. Throws bad_input if the model cannot fork.
  virtual void set_milestones(Milestones& milestones) = 0;
  /// Draws the noise from the instant `from` on with another seed. A step that is in progress at
  /// `from` keeps its noise. The default does nothing.
  virtual void reseed_noise(Nanos /*start*/, std::uint64_t /*seed*/) {}
  /// Continues from the current state of the world and the end of `past`, which has been shown.
  /// Called at most once, instead of the submission. Throws bad_input if the model cannot, as the
  /// default.
  virtual void continue_from(const Past& /*past*/) { refuse_log(); }
  /// Throws bad_input: the run of this model continues from no log.
  [[noreturn]] static void refuse_log() {
    throw Error(ErrorKind::bad_input, "--from: only a training job goes on from a log");
  }
};

/// Interface of a model with telemetry: each method returns the telemetry of the job at `now`, or
/// fills the empty argument with it.
class SampledJob {
 public:
  virtual ~SampledJob() = default;
  /// Returns the rows of a table, never null. Instants with equal rows may share one object, whose
  /// content never changes; for example, all instants of a step.
  virtual std::shared_ptr<const SampleRows> rows(SampleTable table, Nanos now) const = 0;
  /// Fills one column of a table, with a value for each of its rows.
  virtual void fill_column(SampleField field, Nanos now, SampleColumn& out) const = 0;
  /// Fills the values of the sample of a rank, by its row.
  virtual void fill_rank(std::size_t row, Nanos now, RankSample& out) const = 0;
  /// Fills the samples of the newest step's collectives.
  virtual void collectives(std::vector<CollectiveSample>& out) const = 0;
};

}  // namespace orrery::sim

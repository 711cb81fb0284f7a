// Simulator as a backend: one simulated world with its jobs, observed and controlled through the
// same interface as a real one. Training jobs, recorded jobs and execution traces are models
// (sim/world/job_model) on one calendar: the next instant is the earliest that the models, the
// policies' ticks and their wake-ups require. Worlds are constructed by sim/worlds; one thread. The
// policy clock is the simulated time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "policies/run/run_backend.hpp"
#include "policies/seam/gate.hpp"
#include "policies/seam/rank_summary.hpp"
#include "sim/world/job_model.hpp"

namespace orrery::sim {

/// Backend of simulated worlds.
class SimBackend : public RunBackend, public BranchingRun, private Carrier {
 public:
  /// Constructs an empty world. `offered`: features that any of its models supports.
  SimBackend(const Cluster& cluster, Capabilities offered);

  /// Returns the state of cluster and jobs.
  const World& world() const { return world_; }
  /// Returns the gate of all decisions.
  DecisionGate& gate() { return gate_; }
  /// Returns the callback with which the model that is added next reports events; valid as long as
  /// the backend. The callback first reports committed steps of all models, unless the event is
  /// StepsDone, applies the event to the world at once, shows it in the next observation, and
  /// assigns jobs to the model when they are submitted; it drops a PartChanged that changes
  /// nothing. Call once before each add(), and the callback only after add().
  JobModel::Happen teller();
  /// Adds a model, with the further interfaces that it implements. Call only before begin().
  void add(std::unique_ptr<JobModel> model);

  Capabilities capabilities() const override { return offered_; }
  const Cluster& cluster() const override { return world_.cluster(); }
  /// Passes the needs to all models and schedules the next tick, if the policies want ticks. Called
  /// again if other policies take over.
  void begin(const Needs& needs) override;
  /// Returns the outcomes of decisions at the current instant, if any; otherwise advances the clock
  /// to the next instant that policies must see. Returns nothing if all jobs are over, if the next
  /// event is later than end_at(), or if nothing follows; in the last case rejects all deferred
  /// decisions first and shows their outcomes. While a log is shown (continue_from()), returns its
  /// observations, and at its end, if the log has calls, continues its run. Call begin() first.
  /// Throws bad_input for a damaged log, if the log is continued by recorded jobs, if the policy
  /// clock would overflow, and if jobs exceed the engine's room; exceptions of a `branch` or
  /// `hand_over` pass through.
  std::optional<Observation> next() override;
  /// Applies the decisions at the instant of the newest observation. While a log is shown, only
  /// compares them with the log, and throws as Past::check_decisions(). Call once after each
  /// observation.
  void apply(const DecisionList& decisions) override;
  /// Writes the metrics of the first model; with several models adds the outcomes of all. At least
  /// one model must have been added. Throws an environment Error if the timeline of the first model
  /// could not be written.
  void fill(Report& report) override;
  /// Call after the last add(). Throws bad_input if a model is an execution trace.
  void branch_at(Nanos at, std::function<Continuation()> branch) override;
  /// Call after add() of the only model. Throws bad_input if the world has several models or an
  /// execution trace; a log with calls that is continued by recorded jobs throws in next(), at the
  /// end of the log. With a last instant (Past::until()), `hand_over` is called before anything
  /// that happens at this instant or later, in place of the end of the log.
  void continue_from(std::unique_ptr<Past> past, std::function<bool()> hand_over) override;
  /// Lets next() return nothing instead of an event after `until`. Replaces an earlier instant.
  void end_at(Nanos until) override { end_ = until; }

 private:
  /// Telemetry of the models: each column is computed on request, once for each observation.
  class Instruments : public ColumnSamples {
   public:
    explicit Instruments(SimBackend& of) : of_(of) {}
    void forget_samples();
    bool read() const { return read_; }
    Samples* unrecorded() override { return this; }
    RankSummary summary(JobId job, std::uint32_t latest) override;
    std::span<const CollectiveSample> collectives(JobId job) override;

   private:
    std::shared_ptr<const SampleRows> make_rows(SampleTable table, JobId job) override;
    std::shared_ptr<const SampleColumn> make_column(SampleField field, JobId job) override;
    /// Returns a column without values, in the memory of an unused one if there is one.
    std::shared_ptr<SampleColumn> empty_column();
    /// Marks telemetry as read. Returns the interface of the job; null for a job without telemetry
    /// or never submitted.
    const SampledJob* sampled_job(JobId job);

    SimBackend& of_;
    bool read_ = false;  ///< true if a policy has ever read telemetry
    std::map<JobId, std::vector<CollectiveSample>> collectives_;
    std::map<JobId, SummaryBuffer> summaries_;
    /// Columns of earlier observations: the memory of a column to which nobody refers any more
    /// becomes that of the next one.
    std::vector<std::shared_ptr<SampleColumn>> columns_;
  };

  // Carrier
  std::string refusal(const Decision& decision) const override;
  bool is_step_open(JobId job) const override;
  void emit_event(Event event) override;
  void carry_out(const Decision& decision) override;

  /// Model of the world, with its further interfaces; null where it does not implement one.
  struct Member {
    std::unique_ptr<JobModel> model;
    SteppedJob* stepped = nullptr;
    BranchingJob* branching = nullptr;
    SampledJob* sampled = nullptr;
  };

  /// Events of the last observation and of the next one.
  struct Events {
    std::vector<Event> next, shown;
    /// Number of the first events of `next` that report steps which ended before the present
    /// instant, while the policies rested.
    std::size_t known = 0;

    /// Moves the next events to the shown ones; with `known_apart` the known steps alone, if other
    /// events follow them, and then returns true.
    bool show_events(bool known_apart);
  };

  void continue_run();
  /// Returns the member of the job; null for a job that was never submitted.
  const Member* member_of(JobId job) const;
  bool is_over() const;
  void advance_clock();
  void begin_models();
  void pass_models(Nanos stop);
  Nanos next_stop();
  JobModel::Watch watch_state() const;
  bool is_watched(bool resting) const;
  bool are_jobs_unchanged() const;
  void pass_ticks();

  World world_;
  const Capabilities offered_;
  DecisionGate gate_;
  Instruments instruments_{*this};
  std::vector<Member> members_;
  std::vector<Nanos> stops_;  ///< indexed by member: its next event time
  /// First job of a model; the model owns the jobs from this one up to the next entry's.
  struct Run {
    std::uint32_t job;
    std::size_t member;  ///< index into members_
  };
  std::vector<Run> runs_;
  Needs needs_;
  bool at_rest_ = false;             ///< newest promise of the policies
  bool resting_ = false;             ///< true if the promise still holds at the next observation
  std::unique_ptr<Past> past_;       ///< recorded observations, until all have been shown
  std::function<bool()> hand_over_;  ///< called after the last recorded observation
  Milestones milestones_;
  Nanos now_ = 0, next_tick_ = kNever, end_ = kNever;
  /// Instants outside of the course of the clock.
  struct Instants {
    Nanos branches_at = 0;  ///< later instant that has been announced; 0: none
    /// newest call of the policies, except calls about known steps while they rest
    Nanos asked_at = -1;
  } instants_;
  std::uint64_t calls_ = 0;
  Events events_;
};

}  // namespace orrery::sim

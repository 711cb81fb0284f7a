// Jobs of a recorded log in a simulated world: gangs of GPUs that run for their recorded
// durations, wherever they are placed, unless sim/contention/job_paces gives them other speeds.
// Policies place them; a job keeps its GPUs until it ends, a policy preempts it, its node goes
// down, or a limit of power takes them; then it continues later. An elastic job
// (traces/jobs/elastic_sizes) may start with other numbers of GPUs than it asks for, and policies
// may change their number while it runs; its speed follows. With paces of sim/contention it has the
// requested number only. In a cluster with kinds of GPUs a job has GPUs of one kind, which it may
// use (traces/jobs/gpu_kinds), and the speed of the kind. A job larger than the cluster is rejected
// without being shown to policies. Called by the simulator's backend. One thread. Nanoseconds of
// the policy clock. Order within one instant: ending jobs free their GPUs, nodes return and go
// down, new jobs and jobs that waited for others enter the queue, limits of power take GPUs, then
// the policy is called once, and again for the outcomes of its decisions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policies/seam/gate.hpp"
#include "sim/contention/job_paces.hpp"
#include "sim/replay/closed_gpus.hpp"
#include "sim/replay/held_jobs.hpp"
#include "sim/replay/job_estimates.hpp"
#include "sim/replay/job_id_runs.hpp"
#include "sim/replay/job_results.hpp"
#include "sim/replay/job_savings.hpp"
#include "sim/replay/node_outages.hpp"
#include "sim/replay/numbered_trace.hpp"
#include "sim/replay/recorded_runs.hpp"
#include "sim/replay/replay_load.hpp"
#include "sim/replay/site_power.hpp"
#include "sim/world/job_model.hpp"
#include "traces/jobs/elastic_sizes.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::sim {

/// Conditions of recorded jobs beyond their log.
struct RunConditions {
  Nanos restart_cost = 0;  ///< delay whenever a job continues that had left its GPUs
  bool enforce_limits = false;  ///< a run ends at the requested time of its job
  /// A job keeps whole multiples of this work when its node fails; nothing: it keeps none.
  std::optional<Nanos> checkpoint_every = {};
  NodeOutages outages = {};
  std::shared_ptr<JobPaces> paces = {};  ///< null: all run as recorded
  SitePower power = {};  ///< limits of the power, which exclude `paces`, and its meter

  /// Returns true if jobs may run for other than their recorded durations.
  bool any() const {
    return restart_cost > 0 || enforce_limits || outages.any() || paces != nullptr ||
           power.has_limits();
  }
};

/// Model of all jobs of a log.
class RecordedJobs : public JobModel {
 public:
  /// Constructs the model. Jobs are submitted by submission time, ties in the given order. `world`
  /// must outlive it. Throws bad_input if the kind of estimates is unknown.
  RecordedJobs(std::vector<TraceJob> jobs, const World& world, Happen happen,
               EstimateChoice estimates = {}, RunConditions conditions = {});

  /// Applies the paces that have changed by starts and ends up to `now`, or the clock that a limit
  /// of power leaves to the running jobs, and moves the ends of these jobs.
  void begin(Nanos now, const Watch& watch) override;
  /// Returns the next arrival, end, change of a node, or begin or end of a limit of power; kNever
  /// if none follows. Drawn failures count only while a job runs or will arrive.
  Nanos next_event_time() const override;
  /// Emits, at `now`: JobDone of ending jobs, PartChanged of nodes, JobSubmitted of arriving jobs,
  /// and JobStopped of jobs on nodes that went down; then JobStopped and PartChanged because of a
  /// limit of power. Records the load up to `now` first.
  void advance_to(Nanos now, const Watch& watch) override;
  /// Returns true if all jobs that fit the cluster have arrived and ended.
  bool is_over() const override { return arrived_ == trace_.size() && ended_ == trace_.size(); }
  /// Returns the objection to any decision except Assign, to an Assign that moves a placed job
  /// without another number of GPUs, and to GPUs of several kinds or of a kind that the job may not
  /// use, and to parts of GPUs that are not those of one GPU.
  std::string refusal(const Decision& decision) const override;
  /// Starts the waiting job on the GPUs at once, or changes the size of an elastic job that has
  /// GPUs, and emits JobStarted; or, for a release, preempts the job, which keeps its work, and
  /// emits JobStopped. `decision` is an Assign without a refusal().
  void carry_out(const Decision& decision, Nanos now) override;
  /// Writes the results of the jobs and the tables of the replay; ignores `now`.
  void fill(Report& report, Nanos now) override;
  /// Adds one entry for each job, and, if any conditions apply, writes the results of the jobs.
  void add_outcomes(Report& report) const override;

  /// Writes the results of the jobs so far, of the conditions, if any, and of the load; times are
  /// in seconds. Call once for each report, whose lists grow.
  void fill(JobsReport& report) const;
  /// Returns the number of jobs in the trace, with those that are too large for the cluster.
  std::size_t rows() const { return trace_.rows(); }
  /// Returns the result so far of the job in row `index` of the trace; `index` < rows(). The row
  /// points to the job in this object.
  JobRow row(std::size_t index) const;
  /// Returns the waits and ends of all jobs, so far, by their rows in the trace.
  JobOutcomes outcomes() const;
  /// Returns the load of the cluster over time, so far.
  const LoadSeries& load() const { return load_.series(); }

 private:
  /// Returns the estimate that policies saw.
  Nanos told_duration(std::uint32_t number) const {
    return told_.empty() ? trace_.duration(number) : told_[number];
  }
  /// Returns the sizes of an elastic job.
  const ElasticSizes& sizes_of(std::uint32_t number);
  /// Returns the objection to these GPUs because of their kinds; empty if there is none.
  std::string kind_objection(const JobSpec& job, const GpuRuns& gpus) const;
  /// Returns the objection to these slices because of their GPUs; empty if there is none.
  std::string part_objection(const JobSpec& job, const GpuRuns& gpus) const;
  /// Returns the number of GPUs that policies see for a job, in a cluster of slices of slices.
  std::uint32_t slices_of(const TraceJob& job) const {
    return job.slices(world_.cluster().shape().slices_per_gpu);
  }
  /// Returns the number of GPUs of a variable job and its speed on them; nothing of another job.
  RunSize size_on(std::uint32_t number, const GpuRuns& gpus);
  void end_job(std::uint32_t number, Nanos now);
  std::vector<std::uint32_t> struck_jobs(Nanos now);
  std::vector<std::uint32_t> standing_on(std::uint32_t node) const;
  void end_jobs(Nanos now);
  void submit_jobs(Nanos now);
  void submit_job(std::uint32_t number, Nanos now);
  /// Returns the number of GPUs, or slices, of running jobs.
  std::uint32_t busy_gpus() const;
  void keep_limits(Nanos now);
  void fill_conditions(JobsReport& report) const;

  const World& world_;
  Happen happen_;
  const NumberedTrace trace_;
  JobEstimates estimates_;
  std::vector<Nanos> told_;  ///< estimates by number; empty: policies see the recorded durations
  RunConditions conditions_;
  RecordedRuns runs_;
  JobIdRuns ids_;
  HeldJobs held_;
  /// instants at which jobs that were held entered the queue, by number
  std::map<std::uint32_t, Nanos> entered_;
  /// kinds of the newest GPUs of jobs, by number; empty if GPUs have no kinds
  std::map<std::uint32_t, Label> kind_;
  std::map<Label, ElasticSizes> sizes_;  ///< sizes of elastic jobs, by their texts
  ReplayLoad load_;
  ClosedGpus closed_;
  std::set<std::uint32_t> fails_;  ///< jobs whose node fails at this instant
  std::size_t arrived_ = 0, ended_ = 0;
  std::uint64_t preemptions_ = 0, struck_ = 0;
};

}  // namespace orrery::sim

// The jobs of a recorded log in a simulated world: rigid gangs of GPUs that run for as long as they
// did, wherever they stand, unless somebody says how fast they get on there (sim/jobs/job_paces).
// Policies place them; a job keeps its GPUs until it ends, a policy takes them away, or its node
// goes down: then it goes on later. A job that needs more GPUs than there are is rejected: policies
// never hear of it. Called by the simulator's backend. One thread. Nanoseconds of the policy clock.
//
// At one instant: jobs that end free their GPUs, nodes come back and go down, jobs that arrive
// join, then the policy is asked once, and again for what became of its decisions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policies/seam/gate.hpp"
#include "sim/jobs/job_estimates.hpp"
#include "sim/jobs/job_id_runs.hpp"
#include "sim/jobs/job_paces.hpp"
#include "sim/jobs/job_results.hpp"
#include "sim/jobs/node_outages.hpp"
#include "sim/jobs/numbered_trace.hpp"
#include "sim/jobs/recorded_runs.hpp"
#include "sim/jobs/replay_load.hpp"
#include "sim/world/job_model.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::sim {

/// How recorded jobs run, beside what their log says.
struct RunConditions {
  Nanos restart_cost = 0;  ///< each time a job goes on that had left its GPUs
  /// Of its work a job keeps whole multiples of this when its node fails; nothing: none of it.
  std::optional<Nanos> checkpoint_every = {};
  NodeOutages outages = {};
  std::shared_ptr<JobPaces> paces = {};  ///< null: all as recorded

  /// Jobs do not just run for as long as they did.
  bool any() const { return restart_cost > 0 || outages.any() || paces != nullptr; }
};

class RecordedJobs : public JobModel {
 public:
  /// Jobs are submitted by submission time, ties in the order given. `world` outlives this.
  RecordedJobs(std::vector<TraceJob> jobs, const World& world, Happen happen,
               EstimateChoice estimates = {}, RunConditions conditions = {});

  void begin(Nanos now, const Watch& watch) override;
  Nanos next_stop() const override;
  void pass(Nanos now, const Watch& watch) override;
  bool over() const override { return arrived_ == trace_.size() && ended_ == trace_.size(); }
  std::string refusal(const Decision& decision) const override;
  void carry_out(const Decision& decision, Nanos now) override;
  void fill(Report& report, Nanos now) override;
  void add_outcomes(Report& report) const override;

  /// What became of the jobs; times are in seconds.
  void fill(JobsReport& report) const;
  /// One a job of the trace, in its order.
  std::size_t rows() const { return trace_.rows(); }
  JobRow row(std::size_t index) const;
  const LoadSeries& load() const { return load_.series(); }

 private:
  /// Policies are told that it takes so long.
  Nanos told(std::uint32_t number) const {
    return told_.empty() ? trace_.duration(number) : told_[number];
  }
  void leave(std::uint32_t number, Nanos now);
  std::vector<std::uint32_t> strike(Nanos now);
  std::vector<std::uint32_t> standing_on(std::uint32_t node) const;
  void end_jobs(Nanos now);
  void submit_jobs(Nanos now);
  void fill_conditions(JobsReport& report) const;

  const World& world_;
  Happen happen_;
  const NumberedTrace trace_;
  JobEstimates estimates_;
  std::vector<Nanos> told_;  ///< estimates by number; empty: policies are told the truth
  RunConditions conditions_;
  RecordedRuns runs_;
  JobIdRuns ids_;
  ReplayLoad load_;
  std::set<std::uint32_t> fails_;  ///< at this instant, its node without warning
  std::size_t arrived_ = 0, ended_ = 0;
  std::uint64_t preemptions_ = 0, struck_ = 0;
};

}  // namespace orrery::sim

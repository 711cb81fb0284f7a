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
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "policies/seam/gate.hpp"
#include "sim/jobs/job_course.hpp"
#include "sim/jobs/job_estimates.hpp"
#include "sim/jobs/job_paces.hpp"
#include "sim/jobs/job_results.hpp"
#include "sim/jobs/load_series.hpp"
#include "sim/jobs/node_outages.hpp"
#include "sim/world/job_model.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery {

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
  bool over() const override { return arrived_ == jobs_.size() && ended_ == jobs_.size(); }
  std::string refusal(const Decision& decision) const override;
  void carry_out(const Decision& decision, Nanos now) override;
  void fill(Report& report, Nanos now) override;
  void add_outcomes(Report& report) const override;

  /// What became of the jobs; times are in seconds.
  void fill(JobsReport& report) const;
  /// One a job of the trace, in its order.
  std::size_t rows() const { return trace_.size(); }
  JobRow row(std::size_t index) const;
  const LoadSeries& load() const { return load_; }

 private:
  static constexpr std::uint32_t kRejected = ~0u;

  /// Millions of them are kept to the end: what only few jobs need is kept elsewhere, and what
  /// follows is reckoned.
  struct Job {
    Nanos start = -1;  ///< the first; -1: not yet
    std::uint32_t starts = 0;
    std::uint32_t nodes : 31 = 0;  ///< that it last stood in
    std::uint32_t over : 1 = 0;
  };
  static_assert(sizeof(Job) == 16);
  /// Of a job that has left its GPUs, or whose pace is not just as recorded.
  struct Way {
    JobCourse course;
    Nanos end = -1;  ///< as it goes now; in the end when that was
  };
  struct End {
    Nanos at = 0;
    std::uint32_t job = 0, start = 0;  ///< of which start of the job
    friend auto operator<=>(const End&, const End&) = default;
  };

  const TraceJob& recorded(std::size_t job) const {
    return trace_[order_.empty() ? job : order_[job]];
  }
  /// Of a job of the trace; kRejected: it has none.
  std::uint32_t number_at(std::size_t index) const {
    return number_.empty() ? static_cast<std::uint32_t>(index) : number_[index];
  }
  void number();
  Nanos submission(std::size_t job) const { return recorded(job).submit_s * kNanosPerSecond; }
  Nanos duration(std::size_t job) const { return recorded(job).duration_s * kNanosPerSecond; }
  /// Null: it runs, or ran, from its start to its end as recorded.
  const Way* way_of(std::uint32_t number) const {
    if (jobs_[number].starts < 2 && conditions_.paces == nullptr) return nullptr;
    const auto way = ways_.find(number);
    return way == ways_.end() ? nullptr : &way->second;
  }
  /// When it ended, and for how long it had its GPUs; of one that is over.
  Nanos end(std::uint32_t number) const;
  Nanos ran(std::uint32_t number) const;
  Nanos told(std::uint32_t number) const {
    return told_.empty() ? duration(number) : told_[number];
  }
  void hold_load(Nanos now);
  double fragmentation() const;
  std::string misfit(const TraceJob& job) const;
  /// It was taken off its GPUs before, or gets on at another pace.
  bool is_void(const End& end) const {
    const Job& job = jobs_[end.job];
    if (job.starts != end.start || job.over == 1) return true;
    return conditions_.paces != nullptr && ways_.at(end.job).end != end.at;
  }
  void expect_end(std::uint32_t number, Way& way);
  void start(std::uint32_t number, Nanos now);
  void stop(std::uint32_t number, Nanos now);
  std::vector<std::uint32_t> strike(Nanos now);
  std::vector<std::uint32_t> standing_on(std::uint32_t node) const;
  void fill_conditions(JobsReport& report) const;
  JobId id_of(std::uint32_t number) const;
  std::uint32_t number_of(JobId id) const;
  void end_jobs(Nanos now);
  void submit_jobs(Nanos now);

  const std::vector<TraceJob> trace_;
  const World& world_;
  Happen happen_;
  /// The trace's jobs by number, and the other way round; empty where they are the same.
  std::vector<std::uint32_t> order_, number_;
  std::vector<Job> jobs_;  ///< by number, in the order of submission
  JobEstimates estimates_;
  std::vector<Nanos> told_;  ///< estimates by number; empty: policies are told the truth
  RunConditions conditions_;
  LoadSeries load_;
  LoadSeries::Load waiting_;  ///< now; its busy GPUs are the world's
  /// From this job on ids follow one another: others' come in between.
  struct Run {
    std::uint32_t number, id;
  };
  std::vector<Run> runs_;
  std::map<std::uint32_t, Way> ways_;
  std::set<std::uint32_t> fails_;  ///< at this instant, its node without warning
  mutable std::priority_queue<End, std::vector<End>, std::greater<>> running_;  ///< or void
  std::size_t arrived_ = 0, ended_ = 0;
  std::uint64_t preemptions_ = 0, struck_ = 0;
};

}  // namespace orrery

// Jobs of a recorded log on this machine: a cluster whose GPUs are slots and whose jobs are
// processes (live/jobs/running_jobs), under the same policies as a replay. Live counterpart of
// sim/jobs/recorded_jobs: a job runs for its recorded duration, is killed when a policy preempts
// it, and continues later from its progress. One thread; nanoseconds of the log's clock, which runs
// `speed` times as fast as real time. A process stamps its end with the second of the log; ends of
// one second are one batch, with the arrivals of that second, as in a replay. So that no end comes
// late for its batch, the log's time passes an instant only after every process has confirmed that
// it was running then, or has reported its end: a delayed machine falls behind (`most_behind`) and
// catches up, but the order never changes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "live/jobs/job_process.hpp"
#include "live/jobs/running_jobs.hpp"
#include "live/jobs/submissions.hpp"
#include "live/jobs/trace_clock.hpp"
#include "policies/seam/backend.hpp"
#include "policies/seam/gate.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::live {

/// Backend that runs the jobs of a log as processes.
class LocalJobs : public Backend, private Carrier {
 public:
  /// Estimates for policies.
  struct Estimates {
    std::function<Nanos(const TraceJob&)> at_submission;
    std::function<void(const TraceJob&, Nanos ran)> ended = {};
  };
  /// Options of a run.
  struct Options {
    double speed = 1000;
    Nanos until = kNever;  ///< running jobs are killed then, waiting jobs are left
    /// Silence after which a process is killed and its job has failed.
    std::chrono::nanoseconds patience = std::chrono::seconds(30);
  };
  /// Result of one job.
  struct Outcome {
    Nanos start = -1, end = -1;  ///< first start; -1: not yet
    Nanos ran = 0;
    Nanos estimate = 0;
    std::uint32_t kills = 0;  ///< number of preemptions
    std::uint32_t nodes = 0;  ///< nodes of its newest placement
    bool failed = false, too_large = false;
  };

  LocalJobs(Cluster cluster, std::vector<TraceJob> jobs, Estimates estimates, Options options);

  Capabilities capabilities() const override { return {Kinds<Action>::of<Assign>(), {}}; }
  const Cluster& cluster() const override { return cluster_; }
  /// Starts the run. Throws bad_input for policies that need ticks.
  void begin(const Needs& needs) override;
  std::optional<Observation> next() override;
  void apply(const DecisionList& decisions) override;

  /// Returns the results, in the order of the given jobs.
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const std::vector<TraceJob>& jobs() const { return submissions_.jobs(); }
  std::uint64_t processes() const { return running_.started(); }
  /// Returns the largest delay of an instant in real time.
  std::chrono::nanoseconds most_behind() const { return most_behind_; }
  /// Sets a callback for each started process; for tests.
  void on_start(std::function<void(const JobProcess&)> told) { started_ = std::move(told); }

 private:
  // Carrier
  std::string refusal(const Decision& decision) const override;
  bool is_step_open(JobId) const override { return false; }
  void emit_event(Event event) override;
  void carry_out(const Decision& decision) override;

  Outcome& outcome(std::uint32_t number) { return outcomes_[submissions_.index(number)]; }
  bool is_over() const {
    return submissions_.has_submitted_all() && ended_ == submissions_.count();
  }
  bool advance_clock();
  Nanos next_stop() const;
  std::optional<Nanos> wait_for_stop();
  void end_jobs();
  void submit_jobs();
  void start(std::uint32_t number, const Assign& assign);

  const Cluster cluster_;
  World world_;
  const Estimates estimates_;
  const Options options_;
  DecisionGate gate_;
  NoSamples samples_;
  std::optional<TraceClock> clock_;  ///< set at the first instant
  Submissions submissions_;
  RunningJobs running_;
  std::vector<Outcome> outcomes_;
  std::uint32_t ended_ = 0;
  Nanos now_ = 0;
  std::uint64_t calls_ = 0;
  std::chrono::nanoseconds most_behind_{0};
  std::vector<Event> events_, shown_;
  std::function<void(const JobProcess&)> started_;
};

}  // namespace orrery::live

// Jobs of a recorded log on this machine: a cluster whose GPUs are slots and whose jobs are
// processes (live/jobs/running_jobs), under the same policies as a replay. Live counterpart of
// sim/replay/recorded_jobs: a job runs for its recorded duration, is killed when a policy preempts
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

/// Backend that runs the jobs of a log as processes. apply() forks this process, which must have
/// one thread.
class LocalJobs : public Backend, private Carrier {
 public:
  /// Estimates for policies. `at_submission` is called once for each submitted job and must be set;
  /// `ended`, which may be empty, is called with the running time of each job that ended, failed
  /// jobs included.
  struct Estimates {
    std::function<Nanos(const TraceJob&)> at_submission;
    std::function<void(const TraceJob&, Nanos ran)> ended = {};
  };
  /// Options of a run.
  struct Options {
    double speed = 1000;   ///< seconds of the log for each real second; must be above 0
    Nanos until = kNever;  ///< running jobs are killed then, waiting jobs are left
    /// Silence after which a process is killed and its job has failed.
    std::chrono::nanoseconds patience = std::chrono::seconds(30);
  };
  /// Result of one job, as of the newest next() or apply().
  struct Outcome {
    Nanos start = -1, end = -1;  ///< first start; -1: not yet
    Nanos ran = 0;
    Nanos estimate = 0;
    std::uint32_t kills = 0;  ///< number of preemptions
    std::uint32_t nodes = 0;  ///< nodes of its newest placement
    bool failed = false, too_large = false;
  };

  /// Numbers the jobs and creates the slots; starts no process and no clock. Marks jobs that are
  /// larger than the cluster as `too_large`: they are never submitted. Throws an environment Error
  /// as GpuSlots.
  LocalJobs(Cluster cluster, std::vector<TraceJob> jobs, Estimates estimates, Options options);

  Capabilities capabilities() const override { return {Kinds<Action>::of<Assign>(), {}}; }
  const Cluster& cluster() const override { return cluster_; }
  /// Checks the policies' needs; the clock starts with the first next(). Throws bad_input for
  /// policies that need ticks.
  void begin(const Needs& needs) override;
  /// Returns the next observation, with all events of one instant: ends, then submissions, then a
  /// Tick if a wake-up is due; or at once the events of apply(), if there are any. The first call
  /// starts the clock at the first submission. Blocks until the instant has come and every process
  /// has confirmed it, reported its end or failed. Returns nothing, and kills all processes, once
  /// all jobs have ended, once the next instant is later than Options::until (if no process runs,
  /// only after that instant has come), or if no process runs and neither a submission nor a
  /// wake-up follows; open decisions are rejected in a last observation in that last case. Call
  /// only after begin(). Throws an internal Error unless Options::speed is above 0.
  std::optional<Observation> next() override;
  /// Carries out the accepted assignments: starts processes for assigned jobs, kills the processes
  /// of released jobs and counts a preemption for each. Rejects an assignment that would move a
  /// running job, and every decision that is no assignment. The next observation holds the
  /// outcomes. Throws an environment Error if no process can be created, and an internal Error for
  /// an id of a decision without an outcome. Call only after next(), once for each observation.
  void apply(const DecisionList& decisions) override;

  /// Returns the results, in the order of the given jobs; valid as long as this object and updated
  /// by next() and apply().
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  /// Returns the given jobs, in the given order.
  const std::vector<TraceJob>& jobs() const { return submissions_.jobs(); }
  /// Returns the number of processes started so far, each start of a job counted.
  std::uint64_t processes() const { return running_.started(); }
  /// Returns the largest delay, in real time, between an instant of the log and its observation so
  /// far; 0 before the first next().
  std::chrono::nanoseconds most_behind() const { return most_behind_; }
  /// Sets a callback for each started process, called within apply() before the JobStarted event;
  /// for tests. An empty callback ends the calls. The process is valid within the callback only.
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

// The jobs of a recorded log on this machine: a cluster whose GPUs are slots and whose jobs are
// processes (live/jobs/running_jobs), under the same policies as a replay. The other world of
// sim/jobs/recorded_jobs: a job runs for as long as it did, wherever it stands, is killed when a
// policy takes its GPUs away, and goes on later where it was. One thread; nanoseconds of the log's
// clock, which goes `speed` times as fast as ours.
//
// A job's end is stamped by its process with the second of the log in which it came; ends of one
// second are one batch, with the arrivals of that second, as in a replay. So that no end comes late
// for its batch, the log's time passes an instant only when every process has said that it was
// still running then, or when it ended: a machine that is held up falls behind (`most_behind`), and
// catches up, but does not reorder anything.
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

class LocalJobs : public Backend, private Carrier {
 public:
  /// What policies are told of how long a job will run.
  struct Estimates {
    std::function<Nanos(const TraceJob&)> at_submission;
    std::function<void(const TraceJob&, Nanos ran)> ended = {};
  };
  struct Options {
    double speed = 1000;
    Nanos until = kNever;  ///< what runs then is killed, what waits is left
    /// A process that says nothing for so long is killed, and its job has failed.
    std::chrono::nanoseconds patience = std::chrono::seconds(30);
  };
  /// What became of a job.
  struct Outcome {
    Nanos start = -1, end = -1;  ///< first start; -1: not yet
    Nanos ran = 0;
    Nanos estimate = 0;
    std::uint32_t kills = 0;  ///< it made room
    std::uint32_t nodes = 0;  ///< that it last stood in
    bool failed = false, too_large = false;
  };

  LocalJobs(Cluster cluster, std::vector<TraceJob> jobs, Estimates estimates, Options options);

  Capabilities capabilities() const override { return {Kinds<Action>::of<Assign>(), {}}; }
  const Cluster& cluster() const override { return cluster_; }
  /// Throws bad_input for policies that want ticks.
  void begin(const Needs& needs) override;
  std::optional<Observation> next() override;
  void apply(const DecisionList& decisions) override;

  /// In the order in which the jobs were given.
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const std::vector<TraceJob>& jobs() const { return submissions_.jobs(); }
  std::uint64_t processes() const { return running_.started(); }
  /// By how much an instant came later than it should have: real time.
  std::chrono::nanoseconds most_behind() const { return most_behind_; }
  /// Told of every process that has just been started; for tests.
  void on_start(std::function<void(const JobProcess&)> told) { started_ = std::move(told); }

 private:
  // Carrier
  std::string refusal(const Decision& decision) const override;
  bool step_open(JobId) const override { return false; }
  void happen(Event event) override;
  void carry_out(const Decision& decision) override;

  Outcome& outcome(std::uint32_t number) { return outcomes_[submissions_.index(number)]; }
  bool over() const { return submissions_.all_came() && ended_ == submissions_.count(); }
  bool advance();
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
  std::optional<TraceClock> clock_;  ///< from the first instant on
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

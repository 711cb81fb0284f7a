// Processes of the running jobs (live/jobs/job_process): started, killed to make room, read, given
// up after silence, and reaped after their end. Remembers the progress of killed jobs, which
// continue from it. Used by live/jobs/local_jobs. One thread; nanoseconds of the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "live/jobs/job_process.hpp"
#include "live/jobs/trace_clock.hpp"
#include "policies/seam/gpu_runs.hpp"

namespace orrery::live {

/// Job processes by job.
class RunningJobs {
 public:
  /// Constructs an empty set. A process silent for longer than `patience` is killed, and its job
  /// has failed. `beat`: interval of the signs of life.
  RunningJobs(std::chrono::nanoseconds patience, std::chrono::nanoseconds beat)
      : patience_(patience), beat_(beat) {}

  /// Starts job `number`, which must not run, at `now`; the job ends after `duration` of total
  /// running time. Forks this process, which must have one thread.
  const JobProcess& start(std::uint32_t number, const GpuRuns& gpus, const TraceClock& clock,
                          Nanos now, Nanos duration);
  /// Kills the job's process and waits until its slots are free; the job continues from its
  /// progress when it is started again. Throws an internal Error if the job has no process.
  void kill_job(std::uint32_t number, Nanos now);
  /// Kills all processes, without keeping the progress of their jobs.
  void kill_all() { running_.clear(); }

  bool none() const { return running_.empty(); }
  /// Returns the number of processes started so far.
  std::uint64_t started() const { return started_; }
  /// Returns the first reported end; kNever if none was reported.
  Nanos first_end() const;
  /// Returns true if no process can still end at `at` or before, except those that have reported
  /// their end.
  bool all_beyond(Nanos at) const;
  /// Reads the messages of the processes, waiting for them at most `at_most` of real time. Kills
  /// processes that have been silent for longer than `patience`: their jobs have failed.
  void read_messages(std::chrono::nanoseconds at_most);

  /// Ended job.
  struct Ended {
    std::uint32_t number = 0;
    Nanos ran = 0;  ///< total running time
    bool failed = false;
  };
  /// Returns the jobs that have ended by `now`, in order of their numbers; their processes are gone
  /// and their slots free.
  std::vector<Ended> reap_ended(Nanos now);

 private:
  struct Running {
    JobProcess process;
    Nanos since = 0;
  };
  Nanos ran_before(std::uint32_t number) const;

  const std::chrono::nanoseconds patience_, beat_;
  GpuSlots slots_;
  std::map<std::uint32_t, Running> running_;
  std::map<std::uint32_t, Nanos> ran_before_;  ///< progress of killed jobs
  std::uint64_t started_ = 0;
};

}  // namespace orrery::live

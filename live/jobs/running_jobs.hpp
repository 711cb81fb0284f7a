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
  /// running time, to which the progress before kill_job() counts. Forks this process, which must
  /// have one thread. Returns the process, valid until the job is killed or reaped. Throws an
  /// environment Error if no process can be created.
  const JobProcess& start(std::uint32_t number, const GpuRuns& gpus, const TraceClock& clock,
                          Nanos now, Nanos duration);
  /// Kills the job's process and blocks until its slots are free. The time since its start is added
  /// to the progress from which the job continues when it is started again. Throws an internal
  /// Error if the job has no process.
  void kill_job(std::uint32_t number, Nanos now);
  /// Kills all processes, blocks until they are gone, and forgets them, without adding the time
  /// since their starts to the progress of their jobs. No effect without processes.
  void kill_all() { running_.clear(); }

  /// Returns true if no job has a process: none was started, or all are killed or reaped.
  bool none() const { return running_.empty(); }
  /// Returns the number of processes started so far, each start of a job counted.
  std::uint64_t started() const { return started_; }
  /// Returns the first end (JobProcess::end_time()) that is reported and not reaped, by a message
  /// or a failure; kNever if there is none.
  Nanos first_end() const;
  /// Returns true if every process has reported its end, whenever it was, or has confirmed that it
  /// runs at `at` or later: no further end at `at` or before can be reported. True without
  /// processes.
  bool all_beyond(Nanos at) const;
  /// Blocks until a process that has not reported its end sends a message or closes its channel,
  /// for at most `at_most` of real time, and reads all messages; without such a process blocks for
  /// the whole `at_most`. Kills processes that have been silent for longer than `patience`: their
  /// jobs have failed.
  void read_messages(std::chrono::nanoseconds at_most);

  /// Ended job.
  struct Ended {
    std::uint32_t number = 0;
    Nanos ran = 0;  ///< total running time
    bool failed = false;
  };
  /// Removes the processes that have ended by `now`, and blocks until they are gone and their slots
  /// are free. Returns their jobs in order of their numbers; empty if none has ended. `ran` counts
  /// up to `now`. Ends that are later than `now` stay for a later call.
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

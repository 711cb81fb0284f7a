// The processes of the jobs that run (live/jobs/job_process), by job: started, killed to make room,
// heard, given up when they say nothing, and reaped when they have ended. Remembers how long a job
// had run when it was last killed, so that it goes on where it was. Used by live/jobs/local_jobs.
// One thread; nanoseconds of the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "live/jobs/job_process.hpp"
#include "live/jobs/trace_clock.hpp"
#include "policies/seam/gpu_runs.hpp"

namespace orrery::live {

class RunningJobs {
 public:
  /// A process that says nothing for longer than `patience` is killed, and its job has failed.
  /// `beat`: how often each of them says that it is alive.
  RunningJobs(std::chrono::nanoseconds patience, std::chrono::nanoseconds beat)
      : patience_(patience), beat_(beat) {}

  /// Job `number` runs from `now` until it has run for `duration`, in all.
  const JobProcess& start(std::uint32_t number, const GpuRuns& gpus, const TraceClock& clock,
                          Nanos now, Nanos duration);
  /// It goes on where it was when it is started again.
  void kill(std::uint32_t number, Nanos now);
  void kill_all() { running_.clear(); }

  bool none() const { return running_.empty(); }
  /// Processes so far.
  std::uint64_t started() const { return started_; }
  /// The first end that a process has told of; kNever: none has.
  Nanos first_end() const;
  /// No process can still end at that instant, or before it, but those that have said so.
  bool all_beyond(Nanos at) const;
  /// Takes what the processes say, and waits for that as long as is said: real time.
  void listen(std::chrono::nanoseconds at_most);

  struct Ended {
    std::uint32_t number = 0;
    Nanos ran = 0;  ///< in all
    bool failed = false;
  };
  /// Those that have ended by then, in the order of their numbers: they are gone, and what they
  /// held is free.
  std::vector<Ended> reap(Nanos now);

 private:
  struct Running {
    JobProcess process;
    Nanos since = 0;
  };
  Nanos ran_before(std::uint32_t number) const;

  const std::chrono::nanoseconds patience_, beat_;
  GpuSlots slots_;
  std::map<std::uint32_t, Running> running_;
  std::map<std::uint32_t, Nanos> ran_before_;  ///< those that were killed
  std::uint64_t started_ = 0;
};

}  // namespace orrery::live

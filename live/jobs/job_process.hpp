// Process for one job of a log on this machine: it locks the slots of its GPUs, reports that it is
// alive many times a second, ends by itself after its duration, and is killed to make room. Used by
// live/jobs/local_jobs. One thread; nanoseconds of the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "core/process.hpp"
#include "live/jobs/trace_clock.hpp"
#include "policies/seam/gpu_runs.hpp"

namespace orrery::live {

/// Locks for all GPUs, held by processes: the kernel frees the locks of a process, however it ends.
/// The locks are bytes of a file without a name, so nothing is left behind.
class GpuSlots {
 public:
  /// Creates the file. Throws an environment Error if this machine has no such files.
  GpuSlots();
  ~GpuSlots();
  GpuSlots(const GpuSlots&) = delete;
  GpuSlots& operator=(const GpuSlots&) = delete;

  /// Locks the GPUs for this process until it ends. Returns false if another process has one of
  /// them, or if the file cannot be opened; locks of other GPUs may then remain until the end.
  bool lock_slots(const GpuRuns& gpus) const;

 private:
  int file_ = -1;
};

/// Client's end of one job process.
class JobProcess {
 public:
  /// Order for a process.
  struct Order {
    GpuRuns gpus;
    Nanos since = 0, left = 0;  ///< begin of the job, and the time until its end
    /// interval of the signs of life
    std::chrono::nanoseconds beat = std::chrono::milliseconds(20);
  };
  /// Forks this process, which must have one thread. Throws an environment Error if no process can
  /// be created. The destructor kills the process.
  JobProcess(const GpuSlots& slots, const TraceClock& clock, const Order& order);

  /// Returns the descriptor of its messages, for poll().
  int channel() const { return process_.channel(); }
  pid_t pid() const { return process_.pid(); }
  /// Reads its messages; does not block. A taken slot or a closed channel marks the process as
  /// failed, as mark_failed() does.
  void read_messages();
  /// Returns the second in which it ended, by itself or by an accident; nothing as long as it
  /// counts as running.
  std::optional<Nanos> end_time() const { return ended_; }
  /// Returns the instant up to which the process has confirmed that it runs, or its end.
  Nanos alive_at() const { return alive_at_; }
  /// Returns the time since its last message.
  std::chrono::nanoseconds silent() const { return TraceClock::Real::now() - heard_; }
  /// Returns true if it ended abnormally: a slot was taken, or another process killed it.
  bool has_failed() const { return failed_; }
  /// Waits until the process is gone and its slots are free.
  void wait_for_exit() { process_.wait(); }
  /// Kills the process and waits until it is gone; end_time() stays as it was.
  void kill_process();
  /// Kills the process and marks it as failed; it ended in the second after alive_at().
  void mark_failed();

 private:
  [[noreturn]] static void run_job(const GpuSlots& slots, const TraceClock& clock,
                                const Order& order);
  static ChildProcess start(const GpuSlots& slots, const TraceClock& clock, const Order& order);

  ChildProcess process_;
  Nanos alive_at_;
  TraceClock::Real::time_point heard_ = TraceClock::Real::now();
  std::optional<Nanos> ended_;
  bool failed_ = false;
};

}  // namespace orrery::live

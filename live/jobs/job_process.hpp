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

  /// Locks the GPUs for this process until the process ends. Returns false if another process or an
  /// earlier call has locked one of them, or if the file cannot be opened; locks of other GPUs may
  /// then remain until the end. Returns true without GPUs.
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
  /// Forks this process, which must have one thread. The child locks its slots, reports many times
  /// a second that it runs, and exits `order.left` after `order.since`, at once if that is past.
  /// Throws an environment Error if no process can be created. The destructor kills the process and
  /// blocks until it is gone.
  JobProcess(const GpuSlots& slots, const TraceClock& clock, const Order& order);

  /// Returns the descriptor of the process's messages, for poll(): valid as long as this object,
  /// and always readable once the process is gone.
  int channel() const { return process_.channel(); }
  /// Returns the process id, also after the end.
  pid_t pid() const { return process_.pid(); }
  /// Reads the messages that have arrived; does not wait for messages. Updates alive_at(), silent()
  /// and, after the last message, end_time(). A taken slot or a closed channel, also after
  /// kill_process(), marks the process as failed, as mark_failed() does. No effect once end_time()
  /// exists.
  void read_messages();
  /// Returns the instant at which the process ended, by itself or by an accident, rounded up to a
  /// whole second; nothing as long as the process counts as running, also after kill_process().
  std::optional<Nanos> end_time() const { return ended_; }
  /// Returns the newest instant at which the process has confirmed that it runs; `Order::since` - 1
  /// before the first message. Never becomes the end of the process: see end_time().
  Nanos alive_at() const { return alive_at_; }
  /// Returns the real time since the newest message that read_messages() has read, or since the
  /// construction if there is none. Grows on after the end.
  std::chrono::nanoseconds silent() const { return TraceClock::Real::now() - heard_; }
  /// Returns true if the process ended abnormally: a slot was taken, the channel was closed, or
  /// mark_failed() was called. False after kill_process() until the next read_messages().
  bool has_failed() const { return failed_; }
  /// Blocks until the process is gone and its slots are free; returns at once after kill_process().
  /// Call after the process has reported its end, or after kill_process(): a running process whose
  /// unread messages fill the channel never ends.
  void wait_for_exit() { process_.wait(); }
  /// Kills the process and blocks until the process is gone and its slots are free. Does not change
  /// end_time() or has_failed(). No effect on a process that is gone.
  void kill_process();
  /// Kills the process as kill_process() does and marks the process as failed: end_time() is then
  /// the first whole second after alive_at(). Call only while end_time() is nothing: a later call
  /// would replace the end.
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

// One job of a log as a process of this machine: it holds the slots of its GPUs, says that it is
// alive many times a second, ends by itself when it has run for as long as it has to, and is killed
// when it has to make room. Used by live/jobs/local_jobs. One thread; nanoseconds of the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "core/process.hpp"
#include "live/jobs/trace_clock.hpp"
#include "policies/seam/gpu_runs.hpp"

namespace orrery::live {

/// A lock for every GPU, held by processes: the kernel frees what a process held, however it ends.
/// The locks are bytes of a file without a name, so nothing is left behind.
class GpuSlots {
 public:
  /// Throws an environment Error if this machine has no such files.
  GpuSlots();
  ~GpuSlots();
  GpuSlots(const GpuSlots&) = delete;
  GpuSlots& operator=(const GpuSlots&) = delete;

  /// They are this process's until it ends. False if another process has one of them.
  bool hold(const GpuRuns& gpus) const;

 private:
  int file_ = -1;
};

class JobProcess {
 public:
  struct Order {
    GpuRuns gpus;
    Nanos since = 0, left = 0;  ///< it began then, and ends once so much has passed
    std::chrono::nanoseconds beat = std::chrono::milliseconds(20);  ///< between signs of life
  };
  /// Forks this process, which has one thread.
  JobProcess(const GpuSlots& slots, const TraceClock& clock, const Order& order);

  /// Where it speaks, for poll().
  int channel() const { return process_.channel(); }
  pid_t pid() const { return process_.pid(); }
  /// Takes what it has said; does not block.
  void hear();
  /// The second in which it ended, by itself or by an accident; nothing as long as it is thought to
  /// run.
  std::optional<Nanos> ended() const { return ended_; }
  /// It will end behind this instant, or has said when it ended.
  Nanos alive_at() const { return alive_at_; }
  /// It has said nothing for so long.
  std::chrono::nanoseconds silent() const { return TraceClock::Real::now() - heard_; }
  /// It has not ended as it should: it found a slot taken, or was killed by somebody else.
  bool failed() const { return failed_; }
  /// Until it is gone and its slots are free.
  void reap() { process_.wait(); }
  void kill();
  /// It counts as failed from now on.
  void give_up();

 private:
  [[noreturn]] static void work(const GpuSlots& slots, const TraceClock& clock,
                                const Order& order);
  static ChildProcess start(const GpuSlots& slots, const TraceClock& clock, const Order& order);

  ChildProcess process_;
  Nanos alive_at_;
  TraceClock::Real::time_point heard_ = TraceClock::Real::now();
  std::optional<Nanos> ended_;
  bool failed_ = false;
};

}  // namespace orrery::live

// Progress of a rank's step by micro-batches, and the resources that the process has used: the
// computing part of a ProgressSample. The trainer's thread counts; read() may be called by any
// thread. Nanoseconds of this process's clock, bytes.
#pragma once

#include <mutex>

#include "core/ids.hpp"
#include "live/control.pb.h"
#include "live/machine/host_clock.hpp"
#include "live/training/pace.hpp"

namespace orrery::live {

/// Meter of one rank's progress.
class ProgressMeter {
 public:
  /// Constructs a meter. `traffic`: bytes that a micro-batch moves through memory.
  explicit ProgressMeter(double traffic) : traffic_(traffic) {}

  /// Sets the step, with 0 micro-batches done; the sums of busy time and bytes go on. A micro-batch
  /// that was begun and never ended stays the current one until begin_micro_batch().
  void begin_step(Step step);
  /// Begins a micro-batch. Call after Pace::begin_micro_batch(). Replaces a micro-batch that was
  /// begun and never ended.
  void begin_micro_batch();
  /// Counts the current micro-batch as done, with its duration and traffic. Call once after
  /// begin_micro_batch().
  void end_micro_batch();

  /// Returns the progress with the fraction (below 1) of the current micro-batch, which ends at the
  /// deadline of `pace`; without a fraction between two micro-batches. CPU time and memory are
  /// those of the process, and the elapsed time counts from the construction; memory is 0 if the
  /// system does not tell. All other values are 0 before the first step.
  ProgressSample read(const Pace& pace) const;

 private:
  const double traffic_;
  const Clock::time_point born_ = Clock::now();

  mutable std::mutex mutex_;  // guards everything below
  ProgressSample done_;
  bool computing_ = false;
  Clock::time_point micro_batch_start_;
};

}  // namespace orrery::live

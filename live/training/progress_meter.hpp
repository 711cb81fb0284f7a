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

  void begin_step(Step step);
  /// Begins a micro-batch. Call after Pace::begin_micro_batch().
  void begin_micro_batch();
  void end_micro_batch();

  /// Returns the progress with the fraction of the current micro-batch, which ends at the deadline
  /// of `pace`.
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

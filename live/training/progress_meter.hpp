// Where a rank's step stands, micro-batch by micro-batch, and what the process has used so far: the
// part of a ProgressSample that computation makes. The trainer's thread counts; read() may be
// called by any. Nanoseconds of this process's clock, bytes.
#pragma once

#include <mutex>

#include "core/ids.hpp"
#include "live/control.pb.h"
#include "live/machine/host_clock.hpp"
#include "live/training/pace.hpp"

namespace orrery::live {

class ProgressMeter {
 public:
  /// `traffic`: what a micro-batch moves through memory.
  explicit ProgressMeter(double traffic) : traffic_(traffic) {}

  void begin_step(Step step);
  /// After the pace has begun it.
  void begin_micro_batch();
  void end_micro_batch();

  /// With the fraction of the micro-batch under way, which ends at the deadline of `pace`.
  ProgressSample read(const Pace& pace) const;

 private:
  const double traffic_;
  const Clock::time_point born_ = Clock::now();

  mutable std::mutex mutex_;  // of everything below
  ProgressSample done_;
  bool computing_ = false;
  Clock::time_point micro_batch_start_;
};

}  // namespace orrery::live

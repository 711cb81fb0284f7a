// First come, first served with skipping: a pass visits the whole queue in order of submission and
// starts every job that can be placed at that moment. Large jobs may wait for ever behind small
// ones.
#pragma once

#include "policies/queues/waiting_line.hpp"

namespace orrery {

/// Queue policy that skips jobs that do not fit. For example, with 4 free GPUs the queue 8, 2, 4
/// starts the job of 2 GPUs only.
class FifoSkipPolicy : public WaitingLine {
 public:
  /// Returns the needs of queue policies and `gpu_kinds`.
  Needs needs() const override;

 private:
  void dispatch_jobs(const Observation& seen, DecisionList& decisions) override;
};

}  // namespace orrery

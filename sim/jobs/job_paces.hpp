// How fast recorded jobs get on where they stand, beside one another. Without one they all go as
// recorded. Asked by sim/jobs/recorded_jobs; one thread. Nanoseconds of the policy clock.
#pragma once

#include <vector>

#include "core/ids.hpp"
#include "policies/seam/gpu_runs.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::sim {

class JobPaces {
 public:
  /// Of a job from now on; 1: as recorded.
  struct Change {
    JobId job;
    double pace = 1;
  };

  virtual ~JobPaces() = default;
  /// It has these GPUs from now on.
  virtual void enter(JobId id, const TraceJob& job, const GpuRuns& gpus) = 0;
  virtual void leave(JobId id) = 0;
  /// Since the last call; of a job that has entered since, its first one.
  virtual std::vector<Change> changes(Nanos now) = 0;
};

}  // namespace orrery::sim

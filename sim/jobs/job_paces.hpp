// Interface to the speeds of recorded jobs at their places, beside one another. Without an
// implementation all jobs run as recorded. Called by sim/jobs/recorded_jobs; one thread.
// Nanoseconds of the policy clock.
#pragma once

#include <vector>

#include "core/ids.hpp"
#include "policies/seam/gpu_runs.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::sim {

/// Speeds of recorded jobs.
class JobPaces {
 public:
  /// New pace of a job; 1: as recorded.
  struct Change {
    JobId job;
    double pace = 1;
  };

  virtual ~JobPaces() = default;
  /// Records that the job has these GPUs from now on.
  virtual void enter_job(JobId id, const TraceJob& job, const GpuRuns& gpus) = 0;
  /// Records that the job has left its GPUs.
  virtual void remove_job(JobId id) = 0;
  /// Returns the changes since the last call, including the first pace of each new job.
  virtual std::vector<Change> drain_changes(Nanos now) = 0;
};

}  // namespace orrery::sim

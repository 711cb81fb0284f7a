// Interface of the paces of recorded jobs, which depend on their placements and on one another.
// Without an implementation all jobs run as recorded. Called by sim/replay/recorded_jobs; one
// thread. Nanoseconds of the policy clock.
#pragma once

#include <vector>

#include "core/ids.hpp"
#include "policies/seam/gpu_runs.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::sim {

/// Interface of a model that gives recorded jobs their paces. A pace is recorded time per elapsed
/// time: at pace 0.8, 80 s of a recorded duration take 100 s.
class JobPaces {
 public:
  /// Job with a new pace; 1: as recorded.
  struct Change {
    JobId job;
    double pace = 1;
  };

  virtual ~JobPaces() = default;
  /// Adds a job that has these GPUs from now on. Call remove_job() before a job gets other GPUs.
  virtual void enter_job(JobId id, const TraceJob& job, const GpuRuns& gpus) = 0;
  /// Removes a job that has left its GPUs; does nothing for an unknown job.
  virtual void remove_job(JobId id) = 0;
  /// Returns the paces that apply from `now` on and differ from the last ones returned, with the
  /// first pace of each job whose pace is known. Empty if no pace changed. A job that is never
  /// returned runs as recorded. Call after all starts and ends of the instant `now`.
  virtual std::vector<Change> drain_changes(Nanos now) = 0;
};

}  // namespace orrery::sim

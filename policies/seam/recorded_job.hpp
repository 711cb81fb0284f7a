// Conversion of a job of a recorded job log into the submission that policies see, in simulated and
// in live runs. Pure function; thread-safe.
#pragma once

#include "policies/seam/job.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery {

/// Returns the submission of a recorded job as job `id`. `estimate`: expected duration in
/// nanoseconds; 0: unknown. The layout has one data-parallel replica for each GPU.
inline JobSpec recorded_job(const TraceJob& job, JobId id, Nanos estimate) {
  JobSpec spec;
  spec.id = id;
  spec.name = job.id.view();
  spec.pool = job.pool;
  spec.qos = job.qos;
  spec.submit = job.submit_s * kNanosPerSecond;
  spec.gpus = job.gpus;
  spec.user = job.user;
  spec.estimate = estimate;
  spec.priority = job.priority;
  spec.layout.data = job.gpus;
  return spec;
}

}  // namespace orrery

// Job of a recorded log, as policies see it in both worlds: the facts known at submission, and an
// estimate of its duration.
#pragma once

#include "policies/seam/job.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery {

/// Returns the submission of a recorded job with an estimate of its duration in nanoseconds.
inline JobSpec recorded_job(const TraceJob& job, JobId id, Nanos estimate) {
  JobSpec spec;
  spec.id = id;
  spec.name = job.id.view();
  spec.pool = job.pool;
  spec.submit = job.submit_s * kNanosPerSecond;
  spec.gpus = job.gpus;
  spec.user = job.user;
  spec.estimate = estimate;
  spec.priority = job.priority;
  spec.layout.data = job.gpus;
  return spec;
}

}  // namespace orrery

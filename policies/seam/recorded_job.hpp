// A job of a recorded log as policies are shown it, wherever it runs: what was known when it was
// submitted, and an estimate of how long it will run.
#pragma once

#include "policies/seam/job.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery {

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

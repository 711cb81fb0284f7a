// GPUs that a job has, or that a decision has given to it. A start takes time on a real cluster:
// until it is observed, the job has no GPUs, and the GPUs of its pending start belong to it.
#pragma once

#include "policies/seam/job.hpp"

namespace orrery {

/// Returns the GPUs of the job, or of a job without GPUs those of its pending start; empty without
/// either.
inline const GpuRuns& granted_gpus(const JobInfo& job) {
  return job.is_placed() || !job.next ? job.gpus : job.next->gpus;
}

}  // namespace orrery

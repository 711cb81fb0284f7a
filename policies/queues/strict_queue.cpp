#include "policies/queues/strict_queue.hpp"

#include <utility>

namespace orrery {

Needs StrictQueue::needs() const {
  Needs needs = QueuePolicy::needs();
  needs.gpu_kinds = true;
  return needs;
}

void StrictQueue::dispatch_jobs(const Observation& seen, DecisionList& decisions) {
  while (free_gpus().total() > 0) {
    const std::optional<JobId> next = head(seen.jobs);
    if (!next) break;
    const JobSpec& job = seen.jobs[*next].spec;
    std::optional<GpuRuns> gpus = place_job(job);
    if (!gpus) break;
    decisions.add(Assign{*next, std::move(*gpus), job.layout}, reason());
    drop_job(job);
  }
}

}  // namespace orrery

#include "policies/scheduling/strict_queue.hpp"

#include <utility>

namespace orrery {

void StrictQueue::dispatch(const Observation& seen, DecisionList& decisions) {
  while (free().total() > 0) {
    const std::optional<JobId> next = head(seen.jobs);
    if (!next) break;
    const JobSpec& job = seen.jobs[*next].spec;
    std::optional<GpuRuns> gpus = place(job);
    if (!gpus) break;
    decisions.add(Assign{*next, std::move(*gpus), job.layout}, reason());
    drop(job);
  }
}

}  // namespace orrery

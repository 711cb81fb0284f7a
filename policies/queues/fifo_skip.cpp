#include "policies/queues/fifo_skip.hpp"

#include <utility>

namespace orrery {

Needs FifoSkipPolicy::needs() const {
  Needs needs = QueuePolicy::needs();
  needs.gpu_kinds = true;
  return needs;
}

void FifoSkipPolicy::dispatch_jobs(const Observation& seen, DecisionList& decisions) {
  QueueWalk walk(waiting());
  while (free_gpus().total() > 0) {
    const auto next = walk.next([this](std::uint32_t gpus) {
      return gpus <= free_gpus().total() ? JobLine::kAnyEstimate : QueueWalk::kNone;
    });
    if (!next) break;
    const JobSpec& job = seen.jobs[next->place->job].spec;
    if (std::optional<GpuRuns> gpus = place_job(job)) {
      begin(job, std::move(*gpus), "first in line that fits", decisions);
    } else if (!is_choosy(job)) {
      walk.close(next->gpus);
    }
  }
  end_pass();
}

}  // namespace orrery

#include "policies/queues/easy.hpp"

#include <utility>

namespace orrery {

/// Returns the reservation of a job that cannot start now. If enough GPUs are free, only their
/// places do not fit.
EasyPolicy::Reservation EasyPolicy::reserve(std::uint32_t gpus, Nanos now) {
  std::uint32_t sum = free_gpus().total();
  if (sum >= gpus) return {now, sum - gpus};
  ends().extend_overdue(now);
  for (const ExpectedEnds::End& end : ends().in_order()) {
    sum += end.gpus;
    if (sum >= gpus) return {end.at, sum - gpus};
  }
  return {};
}

void EasyPolicy::dispatch_jobs(const Observation& seen, DecisionList& decisions) {
  QueueWalk walk(waiting());
  std::optional<Reservation> reserved;  // set when a job is blocked
  while (free_gpus().total() > 0) {
    const auto next = walk.next([&](std::uint32_t gpus) {
      if (!reserved) return JobLine::kAnyEstimate;
      if (gpus > free_gpus().total()) return QueueWalk::kNone;
      return gpus <= reserved->extra ? JobLine::kAnyEstimate : reserved->shadow - seen.now;
    });
    if (!next) break;
    const JobSpec& job = seen.jobs[next->place->job].spec;
    std::optional<GpuRuns> gpus = place_job(job);
    if (!gpus) {
      walk.close(next->gpus);
      if (!reserved) reserved = reserve(next->gpus, seen.now);
      continue;
    }
    begin_at(seen.now, job, std::move(*gpus),
             reserved ? "fits behind the first in line" : "first in line", decisions);
    if (reserved && job.estimate > reserved->shadow - seen.now) reserved->extra -= job.gpus;
  }
  end_pass();
}

}  // namespace orrery

#include "policies/queues/easy.hpp"

#include <utility>

namespace orrery {

/// Returns the reservation of a job that limits of power keep waiting until `from`.
EasyPolicy::Reservation EasyPolicy::reserve_from(Nanos from, std::uint32_t gpus, Nanos now) {
  Reservation reserved{.shadow = from};
  std::uint32_t sum = free_gpus().total();
  ends().extend_overdue(now);
  for (const ExpectedEnds::End& end : ends().in_order()) {
    if (end.at > from) break;
    sum += end.gpus;
  }
  reserved.extra = sum > gpus ? sum - gpus : 0;
  return reserved;
}

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

EasyPolicy::Reservation EasyPolicy::reserve_by_kind(const Observation& seen, const JobSpec& job) {
  Reservation first{.kind = free_kinds().size()};
  ends().extend_overdue(seen.now);
  for (const std::size_t kind : free_kinds().order_for(job)) {
    std::uint32_t sum = free_kinds().total(kind);
    Reservation here{.shadow = seen.now, .kind = kind};
    auto end = ends().in_order().begin();
    for (; sum < job.gpus && end != ends().in_order().end(); ++end) {
      if (kind_of(seen, end->job) != kind) continue;
      sum += end->gpus;
      here.shadow = end->at;
    }
    if (sum < job.gpus || here.shadow >= first.shadow) continue;
    here.extra = sum - job.gpus;
    first = here;
  }
  return first;
}

bool EasyPolicy::start_on_a_kind(const Observation& seen, const JobSpec& job,
                                 std::optional<Reservation>& reserved, DecisionList& decisions) {
  for (const std::size_t kind : free_kinds().order_for(job)) {
    if (job.gpus > free_kinds().total(kind)) continue;
    const bool needs_extra =
        reserved && kind == reserved->kind && job.estimate > reserved->shadow - seen.now;
    if (needs_extra && job.gpus > reserved->extra) continue;
    std::optional<GpuRuns> gpus = place_on_kind(job, kind);
    if (!gpus) continue;
    begin_at(seen.now, job, std::move(*gpus),
             reserved ? "fits behind the first in line" : "first in line", decisions);
    if (needs_extra) reserved->extra -= job.gpus;
    return true;
  }
  return false;
}

void EasyPolicy::dispatch_by_kind(const Observation& seen, DecisionList& decisions) {
  QueueWalk walk(waiting());
  std::optional<Reservation> reserved;  // set when a job is blocked
  while (free_gpus().total() > 0) {
    const std::uint32_t most = most_free_of_a_kind();
    const auto next = walk.next([&](std::uint32_t gpus) {
      return reserved && gpus > most ? QueueWalk::kNone : JobLine::kAnyEstimate;
    });
    if (!next) break;
    const JobSpec& job = seen.jobs[next->place->job].spec;
    if (!start_on_a_kind(seen, job, reserved, decisions) && !reserved) {
      reserved = reserve_by_kind(seen, job);
    }
  }
  end_backfill_pass();
}

void EasyPolicy::dispatch_jobs(const Observation& seen, DecisionList& decisions) {
  if (!free_kinds().empty()) return dispatch_by_kind(seen, decisions);
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
      if (!is_choosy(job)) walk.close(next->gpus);
      const std::optional<Nanos> power = expected_power(job);
      if (!reserved && power) reserved = reserve_from(*power, next->gpus, seen.now);
      if (!reserved) reserved = reserve(next->gpus, seen.now);
      continue;
    }
    begin_at(seen.now, job, std::move(*gpus),
             reserved ? "fits behind the first in line" : "first in line", decisions);
    if (reserved && job.estimate > reserved->shadow - seen.now) reserved->extra -= job.gpus;
  }
  end_backfill_pass();
}

}  // namespace orrery

#include "policies/queues/conservative.hpp"

#include <algorithm>
#include <utility>

#include "policies/parameters.pb.h"

namespace orrery {

void ConservativePolicy::start(Context& context, const Cluster& cluster,
                               const google::protobuf::Message* parameters) {
  BackfillPolicy::start(context, cluster, parameters);
  reservations_ = dynamic_cast<const ConservativeParameters&>(*parameters).reservations();
}

void ConservativePolicy::plan(Nanos now) {
  scattered_.clear();
  ends().extend_overdue(now);
  plan_.reset(now, free_gpus().total());
  for (const ExpectedEnds::End& end : ends().in_order()) plan_.release(end.at, end.gpus);
}

/// The smallest of the jobs that wait needs more than is free: nothing can start, and nobody needs
/// to know when it would.
bool ConservativePolicy::all_too_large() const {
  const auto& sizes = waiting().by_size();
  const auto smallest = std::find_if(sizes.begin(), sizes.end(),
                                     [](const auto& size) { return !size.second.empty(); });
  return smallest == sizes.end() || smallest->first > free_gpus().total();
}

/// Those who get a reservation, in order.
void ConservativePolicy::line_up() {
  QueueWalk walk(waiting());
  window_.clear();
  while (window_.size() < reservations_) {
    const auto next = walk.next([](std::uint32_t) { return JobLine::kAnyEstimate; });
    if (!next) return;
    window_.push_back({next->gpus, next->place->estimate, next->place->job});
  }
}

/// Returns true if the job can start in this pass: the free GPUs, by the plan and for placement,
/// only decrease.
bool ConservativePolicy::may_start(const Waiting& job, Nanos now) const {
  const bool scattered =
      std::find(scattered_.begin(), scattered_.end(), job.gpus) != scattered_.end();
  return !scattered && plan_.is_free_for(job.gpus, job.estimate, now);
}

void ConservativePolicy::plan_by_kind(const Observation& seen) {
  ends().extend_overdue(seen.now);
  plans_.resize(free_kinds().size());
  for (std::size_t kind = 0; kind < plans_.size(); ++kind) {
    plans_[kind].reset(seen.now, free_kinds().total(kind));
  }
  for (const ExpectedEnds::End& end : ends().in_order()) {
    plans_[kind_of(seen, end.job)].release(end.at, end.gpus);
  }
}

void ConservativePolicy::start_or_reserve(const Observation& seen, const JobSpec& job,
                                          DecisionList& decisions) {
  Nanos from = kNever;
  std::size_t on = 0;
  for (const std::size_t kind : free_kinds().order_for(job)) {
    Nanos here = plans_[kind].earliest_start(job.gpus, job.estimate, seen.now);
    if (here == seen.now) {
      if (std::optional<GpuRuns> gpus = place_on_kind(job, kind)) {
        begin_at(seen.now, job, std::move(*gpus), "its reservation", decisions);
        from = here;
        on = kind;
        break;
      }
      here = plans_[kind].earliest_start(job.gpus, job.estimate, seen.now + kNanosPerSecond);
    }
    if (here >= from) continue;
    from = here;
    on = kind;
  }
  if (from != kNever) plans_[on].reserve(from, from + job.estimate, job.gpus);
}

void ConservativePolicy::dispatch_by_kind(const Observation& seen, DecisionList& decisions) {
  if (waiting().empty()) return;
  plan_by_kind(seen);
  line_up();
  for (const Waiting& next : window_) {
    if (free_gpus().total() == 0) break;
    start_or_reserve(seen, seen.jobs[next.job].spec, decisions);
  }
  end_backfill_pass();
}

void ConservativePolicy::dispatch_jobs(const Observation& seen, DecisionList& decisions) {
  if (!free_kinds().empty()) return dispatch_by_kind(seen, decisions);
  if (all_too_large()) return;
  plan(seen.now);
  line_up();
  std::size_t end = window_.size();  // nobody behind it can start: nobody needs their reservations
  for (std::size_t i = 0; i < end && free_gpus().total() > 0; ++i) {
    const Waiting& next = window_[i];
    Nanos from = plan_.earliest_start(next.gpus, next.estimate, seen.now);
    if (from == seen.now) {
      const JobSpec& job = seen.jobs[next.job].spec;
      if (std::optional<GpuRuns> gpus = place_job(job)) {
        begin_at(seen.now, job, std::move(*gpus), "its reservation", decisions);
      } else {
        if (!is_choosy(job)) scattered_.push_back(next.gpus);
        from = plan_.earliest_start(
            next.gpus, next.estimate, expected_power(job).value_or(seen.now + kNanosPerSecond));
      }
    }
    if (from != kNever) plan_.reserve(from, from + next.estimate, next.gpus);
    while (end > i + 1 && !may_start(window_[end - 1], seen.now)) --end;
  }
  end_backfill_pass();
}

}  // namespace orrery

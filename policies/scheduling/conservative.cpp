#include "policies/scheduling/conservative.hpp"

#include <utility>

#include "policies/parameters.pb.h"

namespace orrery {

void ConservativePolicy::start(Context& context, const Cluster& cluster,
                               const google::protobuf::Message* parameters) {
  BackfillPolicy::start(context, cluster, parameters);
  reservations_ = dynamic_cast<const ConservativeParameters&>(*parameters).reservations();
}

void ConservativePolicy::plan(Nanos now) {
  ends().extend(now);
  plan_.reset(now, free().total());
  for (const ExpectedEnds::End& end : ends().in_order()) plan_.release(end.at, end.gpus);
}

/// While no GPU is free nothing can start, and nobody needs to know when it would.
void ConservativePolicy::dispatch(const Observation& seen, DecisionList& decisions) {
  if (free().total() == 0) return;
  plan(seen.now);
  QueueWalk walk(waiting());
  const auto any = [](std::uint32_t) { return JobLine::kAnyEstimate; };
  for (std::uint32_t left = reservations_; left > 0 && free().total() > 0; --left) {
    const auto next = walk.next(any);
    if (!next) break;
    const JobSpec& job = seen.jobs[next->place->job].spec;
    Nanos from = plan_.earliest(job.gpus, job.estimate, seen.now);
    if (from == seen.now) {
      if (std::optional<GpuRuns> gpus = place(job)) {
        begin_at(seen.now, job, std::move(*gpus), "its reservation", decisions);
      } else {
        from = plan_.earliest(job.gpus, job.estimate, seen.now + kNanosPerSecond);
      }
    }
    if (from != kNever) plan_.reserve(from, from + job.estimate, job.gpus);
  }
  end_pass();
}

}  // namespace orrery

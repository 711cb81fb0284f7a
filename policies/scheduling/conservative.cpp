#include "policies/scheduling/conservative.hpp"

#include <utility>

#include "policies/parameters.pb.h"

namespace orrery {

void ConservativePolicy::start(Context& context, const Cluster& cluster,
                               const google::protobuf::Message* parameters) {
  WaitingLine::start(context, cluster, parameters);
  reservations_ = dynamic_cast<const ConservativeParameters&>(*parameters).reservations();
}

void ConservativePolicy::enter(const JobInfo& job, Nanos now) {
  ends_.end(job.spec.id);
  WaitingLine::enter(job, now);
}

void ConservativePolicy::run(const JobInfo& job, Nanos since) {
  WaitingLine::run(job, since);
  ends_.begin(job.spec.id, job.spec.gpus, since, job.spec.estimate);
}

void ConservativePolicy::leave(const JobInfo& job) {
  WaitingLine::leave(job);
  ends_.end(job.spec.id);
}

void ConservativePolicy::clear() {
  WaitingLine::clear();
  ends_.clear();
}

void ConservativePolicy::plan(Nanos now) {
  ends_.extend(now);
  plan_.reset(now, free().total());
  for (const ExpectedEnds::End& end : ends_.in_order()) plan_.release(end.at, end.gpus);
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
        begin(job, std::move(*gpus), "its reservation", decisions);
        ends_.begin(job.id, job.gpus, seen.now, job.estimate);
      } else {
        from = plan_.earliest(job.gpus, job.estimate, seen.now + kNanosPerSecond);
      }
    }
    if (from != kNever) plan_.reserve(from, from + job.estimate, job.gpus);
  }
  end_pass();
}

}  // namespace orrery

#include "policies/scheduling/strict_queue.hpp"

#include <utility>

#include "core/error.hpp"

namespace orrery {

Needs StrictQueue::needs() const {
  return {.signals = kJobs, .actions = action_bit(Action(PlaceJob{}).index()), .tick_period = 0};
}

void StrictQueue::start(Context&, const Cluster& cluster,
                        const google::protobuf::Message* parameters) {
  ensure(parameters != nullptr, "a queue policy is started with its parameters");
  placer_ = make_placer(placement(*parameters));
  free_ = std::make_unique<FreeGpus>(cluster);
}

/// Brings the queue up to date. A decision that did not come true puts its job back.
void StrictQueue::follow(const Observation& seen) {
  for (const Event& event : seen.events) {
    if (const auto* submitted = std::get_if<JobSubmitted>(&event)) {
      if (submitted->placed.empty()) enter(submitted->job);
    } else if (const auto* done = std::get_if<JobDone>(&event)) {
      drop(seen.jobs[done->job.value].spec);
    } else if (const auto* outcome = std::get_if<DecisionOutcome>(&event)) {
      if (outcome->status != Outcome::applied) rebuild_later();
    }
  }
  if (!std::exchange(rebuild_, false)) return;
  clear();
  for (const JobInfo& job : seen.jobs) {
    if (job.phase == JobPhase::waiting) enter(job.spec);
  }
}

void StrictQueue::observe(Context&, const Observation& seen, DecisionList& decisions) {
  follow(seen);
  free_->refresh(seen.state);
  while (free_->total() > 0) {
    const std::optional<JobId> next = head(seen.jobs);
    if (!next) break;
    const JobSpec& job = seen.jobs[next->value].spec;
    std::optional<std::vector<GpuId>> gpus = placer_->place(job, *free_);
    if (!gpus) break;
    decisions.add(PlaceJob{*next, std::move(*gpus)}, reason());
    drop(job);
  }
  decisions.rest();
}

}  // namespace orrery

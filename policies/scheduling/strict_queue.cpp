#include "policies/scheduling/strict_queue.hpp"

#include <utility>

#include "core/error.hpp"

namespace orrery {

Needs StrictQueue::needs() const {
  return {.actions = Kinds<Action>::of<Assign>(), .settings = {}};
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
      enter(submitted->job);
    } else if (const auto* started = std::get_if<JobStarted>(&event)) {
      drop(seen.jobs[started->job].spec);
    } else if (const auto* stopped = std::get_if<JobStopped>(&event)) {
      enter(seen.jobs[stopped->job].spec);
    } else if (const auto* done = std::get_if<JobDone>(&event)) {
      drop(seen.jobs[done->job].spec);
    } else if (const auto* outcome = std::get_if<Decided>(&event)) {
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
    const JobSpec& job = seen.jobs[*next].spec;
    std::optional<GpuRuns> gpus = placer_->place(job, *free_);
    if (!gpus) break;
    decisions.add(Assign{*next, std::move(*gpus), job.layout}, reason());
    drop(job);
  }
  decisions.rest();
}

}  // namespace orrery

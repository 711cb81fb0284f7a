#include "policies/scheduling/queue_policy.hpp"

#include <utility>

#include <google/protobuf/message.h>

#include "core/error.hpp"

namespace orrery {
namespace {

/// Every queue's parameters have it.
std::string placement_of(const google::protobuf::Message& parameters) {
  const auto* field = parameters.GetDescriptor()->FindFieldByName("placement");
  ensure(field != nullptr, "a queue policy has the parameter 'placement'");
  return parameters.GetReflection()->GetString(parameters, field);
}

}  // namespace

Needs QueuePolicy::needs() const {
  return {.actions = Kinds<Action>::of<Assign>(), .settings = {}};
}

void QueuePolicy::start(Context&, const Cluster& cluster,
                        const google::protobuf::Message* parameters) {
  ensure(parameters != nullptr, "a queue policy is started with its parameters");
  placer_ = make_placer(placement_of(*parameters));
  free_ = std::make_unique<FreeGpus>(cluster);
}

void QueuePolicy::load(const Archive&) { rebuild_later(); }

void QueuePolicy::observe(Context&, const Observation& seen, DecisionList& decisions) {
  if (follow(seen)) {
    free_->refresh(seen.state);
    dispatch(seen, decisions);
  }
  decisions.rest();
}

/// Brings the queue up to date. True if something may have become possible.
bool QueuePolicy::follow(const Observation& seen) {
  bool news = due(seen.now);
  for (const Event& event : seen.events) news = hear(seen, event) || news;
  if (!std::exchange(rebuild_, false)) return news;
  rebuild(seen);
  return true;
}

bool QueuePolicy::hear(const Observation& seen, const Event& event) {
  if (const auto* submitted = std::get_if<JobSubmitted>(&event)) {
    enter(seen.jobs[submitted->job.id], seen.now);
  } else if (const auto* started = std::get_if<JobStarted>(&event)) {
    run(seen.jobs[started->job], seen.now);
    return false;
  } else if (const auto* stopped = std::get_if<JobStopped>(&event)) {
    enter(seen.jobs[stopped->job], seen.now);
    return stop_is_news(seen.now);
  } else if (const auto* done = std::get_if<JobDone>(&event)) {
    leave(seen.jobs[done->job]);
  } else if (const auto* outcome = std::get_if<Decided>(&event)) {
    // A decision that did not come true puts its job back.
    if (outcome->status != Outcome::applied) rebuild_later();
    return false;
  } else {
    return std::holds_alternative<PartChanged>(event);
  }
  return true;
}

void QueuePolicy::rebuild(const Observation& seen) {
  clear();
  for (const JobInfo& job : seen.jobs) {
    if (job.phase == JobPhase::waiting) enter(job, seen.now);
    if (job.phase == JobPhase::starting) run(job, seen.now);
    if (job.phase == JobPhase::running || job.phase == JobPhase::held) run(job, job.started);
  }
}

}  // namespace orrery

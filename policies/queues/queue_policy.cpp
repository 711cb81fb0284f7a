#include "policies/queues/queue_policy.hpp"

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

/// Returns the limits of power of the parameters; none if the policy has no such parameter.
google::protobuf::RepeatedPtrField<PowerLimit> limits_of(
    const google::protobuf::Message& parameters) {
  google::protobuf::RepeatedPtrField<PowerLimit> limits;
  const auto* const field = parameters.GetDescriptor()->FindFieldByName("limits");
  if (field == nullptr) return limits;
  const google::protobuf::Reflection& values = *parameters.GetReflection();
  for (int i = 0; i < values.FieldSize(parameters, field); ++i) {
    limits.Add()->CopyFrom(values.GetRepeatedMessage(parameters, field, i));
  }
  return limits;
}

}  // namespace

Needs QueuePolicy::needs() const {
  return {.actions = Kinds<Action>::of<Assign>(), .settings = {}, .gpu_parts = true};
}

void QueuePolicy::start(Context&, const Cluster& cluster,
                        const google::protobuf::Message* parameters) {
  ensure(parameters != nullptr, "a queue policy is started with its parameters");
  placer_ = make_placer(placement_of(*parameters));
  room_ = PowerRoom(limits_of(*parameters), cluster);
  free_ = std::make_unique<FreeGpus>(cluster);
  kinds_ = std::make_unique<FreeKinds>(cluster);
}

void QueuePolicy::load(const Archive&) { rebuild_later(); }

void QueuePolicy::observe(Context&, const Observation& seen, DecisionList& decisions) {
  if (follow_events(seen)) {
    free_->refresh_from(seen.state);
    kinds_->refresh_from(seen.state);
    if (!room_.empty()) room_.begin_pass(seen);
    dispatch_jobs(seen, decisions);
    retry_ = room_.retry_time().value_or(kNever);
  }
  if (retry_ != kNever) decisions.wake(retry_);
  decisions.rest();
}

std::optional<GpuRuns> QueuePolicy::place_job(const JobSpec& job) {
  if (job.gpus > free_->total() || !room_.admit_job(job)) return {};
  std::optional<GpuRuns> gpus =
      kinds_->empty() ? placer_->place_job(job, *free_) : kinds_->place_job(job, *placer_);
  if (!gpus) return {};
  if (!kinds_->empty()) free_->remove_gpus(*gpus);
  room_.add_start(job);
  return gpus;
}

void QueuePolicy::return_gpus(const GpuRuns& gpus) {
  free_->return_gpus(gpus);
  kinds_->return_gpus(gpus);
}

std::optional<GpuRuns> QueuePolicy::place_outside(const JobSpec& job,
                                                  const std::vector<std::uint32_t>& closed) {
  GpuRuns kept;
  for (const std::uint32_t node : closed) free_->take_node(node, kept);
  std::optional<GpuRuns> gpus = placer_->place_job(job, *free_);
  free_->return_gpus(kept);
  return gpus;
}

/// Brings the queue up to date. True if something may have become possible.
bool QueuePolicy::follow_events(const Observation& seen) {
  bool news = is_due(seen.now) || seen.now >= retry_;
  news = away_.read_changes(seen) || news;
  for (const Event& event : seen.events) news = on_event(seen, event) || news;
  if (!std::exchange(rebuild_, false)) return news;
  rebuild_queue(seen);
  return true;
}

bool QueuePolicy::on_event(const Observation& seen, const Event& event) {
  if (const auto* submitted = std::get_if<JobSubmitted>(&event)) {
    enter_queue(seen.jobs[submitted->job.id], seen.now);
  } else if (const auto* started = std::get_if<JobStarted>(&event)) {
    run(seen.jobs[started->job], seen.now);
    return false;
  } else if (const auto* stopped = std::get_if<JobStopped>(&event)) {
    enter_queue(seen.jobs[stopped->job], seen.now);
    return is_stop_relevant(seen.now);
  } else if (const auto* done = std::get_if<JobDone>(&event)) {
    remove_job(seen.jobs[done->job]);
  } else if (const auto* outcome = std::get_if<Decided>(&event)) {
    // A decision that did not come true puts its job back.
    if (outcome->status != Outcome::applied) rebuild_later();
    return false;
  } else {
    return false;
  }
  return true;
}

void QueuePolicy::rebuild_queue(const Observation& seen) {
  clear();
  for (const JobInfo& job : seen.jobs) {
    if (job.phase == JobPhase::waiting) enter_queue(job, seen.now);
    if (job.phase == JobPhase::starting) run(job, seen.now);
    if (job.phase == JobPhase::running || job.phase == JobPhase::held) run(job, job.started);
  }
}

}  // namespace orrery

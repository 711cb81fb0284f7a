#include "sim/replay/wait_watch.hpp"

#include <algorithm>

namespace orrery::sim {

WaitWatch::WaitWatch(Policy& inner, const std::string& job, const std::string& placement)
    : inner_(inner), placer_(make_placer(placement)) {
  reasons_.name = job;
}

void WaitWatch::start(Context& context, const Cluster& cluster,
                      const google::protobuf::Message* parameters) {
  free_ = std::make_unique<FreeGpus>(cluster);
  kinds_ = std::make_unique<FreeKinds>(cluster);
  inner_.start(context, cluster, parameters);
}

void WaitWatch::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  follow_events(seen);
  inner_.observe(context, seen, decisions);
}

/// The outcomes of decisions are shown at the same instant in another observation: after it, the
/// world stays unchanged until the next instant.
void WaitWatch::follow_events(const Observation& seen) {
  if (waits_) *stands_ += seen.now - since_;
  for (const Event& event : seen.events) on_event(seen, event);
  since_ = seen.now;
  if (waits_) stands_ = &obstacle(seen);
}

void WaitWatch::on_event(const Observation& seen, const Event& event) {
  if (const auto* submitted = std::get_if<JobSubmitted>(&event)) {
    if (!reasons_.found && submitted->job.name == reasons_.name) find(seen, submitted->job);
    return;
  }
  if (!reasons_.found) return;
  if (const auto* started = std::get_if<JobStarted>(&event)) {
    if (started->job == id_) {
      waits_ = false;
      if (reasons_.started < 0) reasons_.started = seen.now;
    } else if (waits_ && id_ < started->job && seen.jobs[started->job].started == seen.now) {
      ++reasons_.overtook_jobs;
      reasons_.overtook_gpus += seen.jobs[started->job].spec.gpus;
    }
  } else if (const auto* stopped = std::get_if<JobStopped>(&event)) {
    if (stopped->job != id_) return;
    waits_ = true;
    ++reasons_.taken_off;
  } else if (const auto* done = std::get_if<JobDone>(&event)) {
    if (done->job != id_) return;
    waits_ = false;
    reasons_.ended = seen.now;
  }
}

void WaitWatch::find(const Observation& seen, const JobSpec& job) {
  reasons_.found = waits_ = true;
  reasons_.slices = seen.cluster.shape().slices_per_gpu;
  reasons_.gpus = job.gpus;
  reasons_.submitted = seen.now;
  reasons_.free_gpus = seen.state.free;
  id_ = job.id;
  for (const JobInfo& other : seen.jobs) {
    if (other.phase != JobPhase::waiting || !(other.spec.id < id_)) continue;
    ++reasons_.ahead_jobs;
    reasons_.ahead_gpus += other.spec.gpus;
    if (reasons_.ahead.size() < WaitReasons::kMostNames) reasons_.ahead.push_back(other.spec.name);
  }
}

Nanos& WaitWatch::obstacle(const Observation& seen) {
  if (seen.state.free < reasons_.gpus) return reasons_.too_few;
  const JobSpec& job = seen.jobs[id_].spec;
  bool fits = false;
  if (kinds_->empty()) {
    free_->refresh_from(seen.state);
    fits = placer_->place_job(job, *free_).has_value();
  } else {
    kinds_->refresh_from(seen.state);
    const std::vector<std::size_t> order = kinds_->order_for(job);
    const bool enough = std::any_of(order.begin(), order.end(), [&](std::size_t kind) {
      return job.gpus <= kinds_->total(kind);
    });
    if (!enough) return reasons_.too_few;
    fits = kinds_->place_job(job, *placer_).has_value();
  }
  return fits ? reasons_.order : reasons_.scattered;
}

}  // namespace orrery::sim

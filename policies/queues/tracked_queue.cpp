#include "policies/queues/tracked_queue.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/random.hpp"
#include "policies/queues/granted_gpus.hpp"

namespace orrery {

/// Puts the job behind all others that run, or wait.
void TrackedQueue::line_up(Track& job) {
  job.turn = turns_++;
  (job.running ? running_ : waiting_).push_back(&job);
}

void TrackedQueue::step_out(const Track& job) {
  Jobs& line = job.running ? running_ : waiting_;
  const auto found =
      std::lower_bound(line.begin(), line.end(), job.turn,
                       [](const Track* a, std::uint64_t turn) { return a->turn < turn; });
  line.erase(found);
}

void TrackedQueue::enter_queue(const JobInfo& info, Nanos now) {
  const auto [known, fresh] = jobs_.try_emplace(info.spec.id);
  Track& job = known->second;
  if (fresh) {
    const auto number = static_cast<std::uint32_t>(pools_.size());
    job = {.id = info.spec.id,
           .pool = pools_.try_emplace(info.spec.pool, number).first->second,
           .gpus = info.spec.gpus,
           .submit = info.spec.submit,
           .estimate = info.spec.estimate};
    job.served = std::llround(info.gpu_seconds / std::max(1u, job.gpus)) * kNanosPerSecond;
  } else if (!job.running) {
    return;
  } else {
    step_out(job);
    job.running = false;
    job.served += now - job.since;
    running_gpus_ -= job.gpus;
  }
  line_up(job);
}

void TrackedQueue::run(const JobInfo& info, Nanos since) {
  enter_queue(info, since);
  Track& job = jobs_.at(info.spec.id);
  step_out(job);
  job.running = true;
  job.since = since;
  line_up(job);
  running_gpus_ += job.gpus;
}

void TrackedQueue::remove_job(const JobInfo& info) {
  const auto known = jobs_.find(info.spec.id);
  if (known != jobs_.end()) {
    step_out(known->second);
    if (known->second.running) running_gpus_ -= known->second.gpus;
    jobs_.erase(known);
  }
  on_job_end(info);  // also if the queue is not rebuilt yet, at the first call after load
}

void TrackedQueue::clear() {
  jobs_.clear();
  running_.clear();
  waiting_.clear();
  running_gpus_ = 0;
  turns_ = 0;
}

void TrackedQueue::save(Archive& archive) const {
  std::uint64_t digest = 0;
  for (const auto& [id, job] : jobs_) {
    const std::uint64_t state = id.value * 2 + (job.running ? 1u : 0u);
    digest ^= Rng(Rng(state).next() ^ static_cast<std::uint64_t>(job.served)).next();
  }
  archive += std::to_string(jobs_.size()) + " " + std::to_string(digest);
}

void TrackedQueue::preempt_job(const Observation& seen, Track& job, DecisionList& decisions) {
  decisions.add(Assign{.job = job.id}, "makes room");
  return_gpus(granted_gpus(seen.jobs[job.id]));
  enter_queue(seen.jobs[job.id], seen.now);
  taken_off_at_ = seen.now;
}

void TrackedQueue::start_job(const Observation& seen, Track& job, GpuRuns gpus, const char* why,
                             DecisionList& decisions) {
  const JobInfo& info = seen.jobs[job.id];
  decisions.add(Assign{job.id, std::move(gpus), info.spec.layout}, why);
  run(info, seen.now);
}

}  // namespace orrery

#include "policies/queues/waiting_line.hpp"

#include <utility>

namespace orrery {

JobPlace WaitingLine::place_of(const JobSpec& job) {
  return {.turn = job.id.value, .job = job.id, .estimate = job.estimate};
}

void WaitingLine::enter_queue(const JobInfo& job, Nanos) {
  const std::uint32_t id = job.spec.id.value;
  if (id >= is_waiting_.size()) is_waiting_.resize(id + 1);
  is_waiting_[id] = true;
  waiting_.insert(job.spec.gpus, place_of(job.spec));
}

/// Removes the place of a job. Most calls are for jobs that have left the line before: they run, or
/// end.
void WaitingLine::erase_place(const JobSpec& job) {
  const std::uint32_t id = job.id.value;
  if (id >= is_waiting_.size() || !is_waiting_[id]) return;
  is_waiting_[id] = false;
  waiting_.erase(job.gpus, place_of(job));
}

void WaitingLine::run(const JobInfo& job, Nanos) { erase_place(job.spec); }

void WaitingLine::remove_job(const JobInfo& job) { erase_place(job.spec); }

void WaitingLine::clear() {
  waiting_.clear();
  is_waiting_.clear();
}

void WaitingLine::begin(const JobSpec& job, GpuRuns gpus, const char* why,
                        DecisionList& decisions) {
  decisions.add(Assign{job.id, std::move(gpus), job.layout}, why);
  begun_.push_back(&job);
}

void WaitingLine::end_pass() {
  for (const JobSpec* const job : begun_) erase_place(*job);
  begun_.clear();
}

void WaitingLine::save(Archive& archive) const {
  archive += std::to_string(waiting_.size()) + " " + std::to_string(waiting_.digest());
}

}  // namespace orrery

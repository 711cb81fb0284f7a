#include "policies/queues/waiting_line.hpp"

#include <utility>

namespace orrery {

JobPlace WaitingLine::place_of(const JobSpec& job) {
  return {.turn = job.id.value, .job = job.id, .estimate = job.estimate};
}

void WaitingLine::enter_queue(const JobInfo& job, Nanos) {
  waiting_.insert(job.spec.gpus, place_of(job.spec));
}

void WaitingLine::run(const JobInfo& job, Nanos) { remove_job(job); }

void WaitingLine::remove_job(const JobInfo& job) {
  waiting_.erase(job.spec.gpus, place_of(job.spec));
}

void WaitingLine::begin(const JobSpec& job, GpuRuns gpus, const char* why,
                        DecisionList& decisions) {
  decisions.add(Assign{job.id, std::move(gpus), job.layout}, why);
  begun_.push_back(&job);
}

void WaitingLine::end_pass() {
  for (const JobSpec* const job : begun_) waiting_.erase(job->gpus, place_of(*job));
  begun_.clear();
}

void WaitingLine::save(Archive& archive) const {
  archive += std::to_string(waiting_.size()) + " " + std::to_string(waiting_.digest());
}

}  // namespace orrery

#include "policies/queues/backfill.hpp"

#include <utility>

namespace orrery {

void BackfillPolicy::enter_queue(const JobInfo& job, Nanos now) {
  ends_.remove_job(job.spec.id);
  WaitingLine::enter_queue(job, now);
}

void BackfillPolicy::run(const JobInfo& job, Nanos since) {
  WaitingLine::run(job, since);
  ends_.record_start(job.spec.id, job.spec.gpus, since, job.spec.estimate);
}

void BackfillPolicy::remove_job(const JobInfo& job) {
  WaitingLine::remove_job(job);
  ends_.remove_job(job.spec.id);
}

void BackfillPolicy::clear() {
  WaitingLine::clear();
  ends_.clear();
}

void BackfillPolicy::begin_at(Nanos now, const JobSpec& job, GpuRuns gpus, const char* why,
                              DecisionList& decisions) {
  begin(job, std::move(gpus), why, decisions);
  ends_.record_start(job.id, job.gpus, now, job.estimate);
}

}  // namespace orrery

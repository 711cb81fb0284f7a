#include "policies/queues/backfill.hpp"

#include <algorithm>
#include <utility>

#include "policies/queues/granted_gpus.hpp"

namespace orrery {

Needs BackfillPolicy::needs() const {
  Needs needs = QueuePolicy::needs();
  needs.gpu_kinds = true;
  return needs;
}

void BackfillPolicy::start(Context& context, const Cluster& cluster,
                           const google::protobuf::Message* parameters) {
  WaitingLine::start(context, cluster, parameters);
  kind_names_ = cluster.gpu_kinds();
}

std::optional<GpuRuns> BackfillPolicy::place_on_kind(const JobSpec& job, std::size_t kind) {
  JobSpec choosy = job;
  choosy.gpu_kinds = {kind_names_[kind]};
  return place_job(choosy);
}

std::size_t BackfillPolicy::kind_of(const Observation& seen, JobId job) const {
  const auto started = started_.find(job);
  if (started != started_.end()) return started->second;
  return free_kinds().kind_of(granted_gpus(seen.jobs[job]));
}

std::uint32_t BackfillPolicy::most_free_of_a_kind() const {
  std::uint32_t most = 0;
  for (std::size_t kind = 0; kind < free_kinds().size(); ++kind) {
    most = std::max(most, free_kinds().total(kind));
  }
  return most;
}

void BackfillPolicy::end_backfill_pass() {
  end_pass();
  started_.clear();
}

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
  if (!free_kinds().empty()) started_[job.id] = free_kinds().kind_of(gpus);
  begin(job, std::move(gpus), why, decisions);
  ends_.record_start(job.id, job.gpus, now, job.estimate);
}

}  // namespace orrery

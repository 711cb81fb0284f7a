#include "sim/forecast/queue_snapshot.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "topologies/part.hpp"

namespace orrery::sim {
namespace {

const GpuRuns& gpus_of(const JobInfo& job) {
  return job.is_placed() || !job.next ? job.gpus : job.next->gpus;
}

Nanos service_until(const JobInfo& job, Nanos now) {
  const Nanos before =
      std::llround(job.gpu_seconds / std::max(1u, job.spec.gpus)) * kNanosPerSecond;
  return before + (job.is_placed() ? now - job.standing_since : 0);
}

}  // namespace

bool has_running_job(const JobTable& jobs) {
  return std::any_of(jobs.begin(), jobs.end(), [](const JobInfo& job) { return job.is_placed(); });
}

bool has_waiting_job(const JobTable& jobs) {
  return std::any_of(jobs.begin(), jobs.end(),
                     [](const JobInfo& job) { return job.phase == JobPhase::waiting; });
}

void refuse_variable(const JobSpec& job) {
  if (!job.gpu_kinds.empty()) {
    throw Error(ErrorKind::bad_input,
                fmt::format("futures of a queue: expected jobs for GPUs of any kind, found job "
                            "'{}' for {}; give --nodes and --gpus-per-node for a cluster of equal "
                            "GPUs",
                            job.name, fmt::join(job.gpu_kinds, " or ")));
  }
  if (job.is_training() || job.least() == job.most()) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("futures of a queue: expected jobs of one size, found job '{}' of {} to "
                          "{} GPUs; take the columns min_gpus and max_gpus out of the log",
                          job.name, job.least(), job.most()));
}

QueueSnapshot::QueueSnapshot(const Observation& seen) : now_(seen.now), world_(seen.cluster) {
  if (seen.cluster.shape().slices_per_gpu > 1) {
    throw Error(ErrorKind::bad_input,
                "futures of a queue: expected whole GPUs, found slices of GPUs for jobs with parts "
                "of them: add --set gpu_slices=1 to the replay, which counts parts as whole GPUs");
  }
  submit_jobs(seen);
  repeat_service(seen);
  for (const auto& [part, state] : seen.state.parts) world_.apply(PartChanged{part, state}, now_);
  start_jobs(seen);
}

QueueSnapshot QueueSnapshot::without_node(NodeId node) const {
  QueueSnapshot out = *this;
  const Part part{PartKind::node, node.value};
  for (const GpuId gpu : gpus_of(world_.cluster(), part)) {
    const JobId job = out.world_.state().owner[gpu.value];
    if (job == ClusterState::kNobody) continue;
    out.world_.apply(JobStopped{job, 0}, now_);
    out.jobs_[job.value].is_running = false;
    out.jobs_[job.value].served = 0;
  }
  PartState lost;
  lost.health = Health::lost;
  out.world_.apply(PartChanged{part, lost}, now_);
  return out;
}

void QueueSnapshot::submit_jobs(const Observation& seen) {
  for (const JobInfo& job : seen.jobs) {
    if (job.phase == JobPhase::done) continue;
    refuse_variable(job.spec);
    JobSpec spec = job.spec;
    spec.id = {static_cast<std::uint32_t>(jobs_.size())};
    jobs_.push_back({.known_as = job.spec.id,
                     .is_running = !gpus_of(job).empty(),
                     .served = service_until(job, seen.now)});
    world_.apply(JobSubmitted{std::move(spec)}, job.spec.submit);
  }
}

/// Policies by attained service read the service before the current run. Each job gets it in turn
/// on the empty cluster, before all other instants.
void QueueSnapshot::repeat_service(const Observation& seen) {
  std::vector<std::pair<JobId, Nanos>> earlier;
  Nanos begin = seen.now;
  for (std::uint32_t id = 0; id < jobs_.size(); ++id) {
    const JobInfo& job = seen.jobs[jobs_[id].known_as];
    begin = std::min({begin, job.spec.submit, job.started});
    const Nanos service = jobs_[id].served - (job.is_placed() ? seen.now - job.started : 0);
    if (service >= kNanosPerSecond) earlier.push_back({{id}, service});
  }
  for (const auto& [id, service] : earlier) begin -= service;
  for (const auto& [id, service] : earlier) {
    const JobSpec& spec = world_.jobs()[id].spec;
    const Standing where{GpuRuns::range({0}, spec.gpus), spec.layout};
    world_.apply(JobStarted{.job = id, .epoch = {1}, .from = 0, .where = where}, begin);
    world_.apply(JobStopped{id, 0}, begin += service);
  }
}

void QueueSnapshot::start_jobs(const Observation& seen) {
  std::vector<std::pair<Nanos, std::uint32_t>> order;
  for (std::uint32_t id = 0; id < jobs_.size(); ++id) {
    const JobInfo& job = seen.jobs[jobs_[id].known_as];
    if (jobs_[id].is_running) order.push_back({job.is_placed() ? job.started : seen.now, id});
  }
  std::sort(order.begin(), order.end());
  for (const auto& [since, id] : order) {
    const JobInfo& job = seen.jobs[jobs_[id].known_as];
    world_.apply(
        JobStarted{.job = {id}, .epoch = {2}, .from = 0, .where = {gpus_of(job), job.spec.layout}},
        since);
  }
}

}  // namespace orrery::sim

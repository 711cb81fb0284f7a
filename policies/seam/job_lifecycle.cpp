#include "policies/seam/job_lifecycle.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace orrery {
namespace {

void update_saved(JobInfo& job) {
  const HeldCheckpoint* const newest = job.checkpoints.newest();
  job.saved = newest != nullptr ? newest->step : 0;
  job.saved_at = newest != nullptr ? newest->at : 0;
}

}  // namespace

bool is_restart(const JobInfo& job, const Assign& assign) {
  const bool loads = assign.state != StateFrom::peer && !assign.is_release();
  return loads && job.is_placed() && job.spec.is_training();
}

std::optional<RankId> rank_on(const JobInfo& job, GpuId gpu) {
  std::uint32_t rank = 0;
  for (const GpuRuns::Run& run : job.gpus.runs()) {
    if (gpu.value - run.first < run.count) {
      const RankId found{rank + gpu.value - run.first};
      return job.is_lost(found) ? std::nullopt : std::optional(found);
    }
    rank += run.count;
  }
  return {};
}

void add_checkpoint(JobInfo& job, HeldCheckpoint checkpoint) {
  job.checkpoints.add_checkpoint(std::move(checkpoint));
  update_saved(job);
}

void lose_copies(JobInfo& job, NodeId node) {
  job.checkpoints.lose_node(node);
  update_saved(job);
}

void forget_checkpoints_after(JobInfo& job, Step step) {
  job.checkpoints.forget_after(step);
  update_saved(job);
}

void fall_back(JobInfo& job, Step intact, Nanos now) {
  job.is_corrupted = true;
  forget_checkpoints_after(job, intact);
  if (job.saved >= intact) return;
  add_checkpoint(job, {.step = intact, .tier = Tier::local_disk, .at = now});
}

std::vector<GpuId> lost_gpus(const JobInfo& job) {
  std::vector<GpuId> gpus;
  auto lost = job.lost.begin();
  std::uint32_t rank = 0;
  for (const GpuId gpu : job.gpus) {
    if (lost == job.lost.end()) break;
    if (rank++ != lost->value) continue;
    gpus.push_back(gpu);
    ++lost;
  }
  return gpus;
}

std::size_t count_working_ranks(const JobInfo& job) {
  return job.is_restarting ? 0 : job.gpus.size() - job.lost.size();
}

ProcessRole role_of(const JobInfo& job, GpuId gpu) {
  const bool works = !job.is_restarting && rank_on(job, gpu).has_value();
  if (!job.next) return works ? ProcessRole::working : ProcessRole::none;
  const bool named = job.next->gpus.contains(gpu);
  if (works) return named ? ProcessRole::working : ProcessRole::leaving;
  return named ? ProcessRole::starting : ProcessRole::none;
}

AssignmentOrders orders_of(const JobInfo& job, const Assign& assign) {
  AssignmentOrders orders;
  if (job.is_restarting) return {.start = assign.gpus.to_vector(), .abandons_step = true};
  if (job.lost.empty() && assign.gpus == job.gpus) return orders;
  for (const GpuId gpu : assign.gpus) {
    if (!rank_on(job, gpu)) orders.start.push_back(gpu);
  }
  std::uint32_t rank = 0;
  for (const GpuId gpu : job.gpus) {
    const bool leaves = !job.is_lost({rank++}) && !assign.gpus.contains(gpu);
    orders.abandons_step = orders.abandons_step || (leaves && orders.start.empty());
  }
  return orders;
}

bool is_assignment_void(const JobInfo& job, const std::function<bool(GpuId)>& is_healthy) {
  if (!job.next || job.phase != JobPhase::running || job.is_restarting) return false;
  return std::ranges::any_of(job.next->gpus, [&](GpuId gpu) {
    return !is_healthy(gpu) && role_of(job, gpu) == ProcessRole::starting;
  });
}

JobStopped stop_of(const JobInfo& job, Step kept) {
  ensure(kept <= job.step, "expected a checkpoint of a step that the job has completed");
  return {job.spec.id, kept};
}

bool has_done_all_steps(const JobInfo& job) {
  return has_done_all_steps(job.step, job.spec.steps);
}

JobStarted start_of(const JobInfo& job, Step from, Standing where) {
  return {
      .job = job.spec.id, .epoch = {job.epoch.value + 1}, .from = from, .where = std::move(where)};
}

}  // namespace orrery

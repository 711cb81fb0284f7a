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

void sort_uniquely(std::vector<RankId>& ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
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

std::optional<RanksSuspected> suspicion_of(const JobInfo& job, std::vector<RankId> silent) {
  const bool has_ranks = job.is_placed() && !job.is_restarting;
  std::erase_if(silent, [&](RankId rank) {
    return !has_ranks || rank.value >= job.gpus.size() || job.is_lost(rank);
  });
  sort_uniquely(silent);
  if (silent == job.suspected) return {};
  return RanksSuspected{job.spec.id, std::move(silent)};
}

RanksLost loss_of(const JobInfo& job, std::vector<RankId> ranks) {
  sort_uniquely(ranks);
  return {.job = job.spec.id, .ranks = std::move(ranks), .epoch = {job.epoch.value + 1}};
}

AfterLoss after_loss(const JobInfo& job, bool can_run) {
  AfterLoss after;
  const bool holds = job.now.get<OnLoss>().response == LossResponse::hold;
  after.held = holds || job.is_corrupted || !can_go_on(job) || !can_run;
  after.is_assigned = job.next.has_value();
  after.is_state_lost = job.is_corrupted || without_lost(job).gpus.empty();
  if (!after.is_assigned) return after;
  for (const GpuId gpu : lost_gpus(job)) {
    if (job.next->gpus.contains(gpu)) after.replace.push_back(gpu);
  }
  return after;
}

namespace {

/// Returns the lost ranks of the job without those on the GPUs `back`.
std::vector<RankId> lost_after_return(const JobInfo& job, const std::vector<GpuId>& back) {
  const std::vector<GpuId> gpus = lost_gpus(job);
  std::vector<RankId> left;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (std::find(back.begin(), back.end(), gpus[i]) == back.end()) left.push_back(job.lost[i]);
  }
  return left;
}

/// Returns true if the job can run with these ranks lost, and its OnLoss permits that.
bool can_run_without(const JobInfo& job, std::vector<RankId> lost,
                     const std::function<bool(std::uint32_t)>& can_run) {
  if (lost.empty()) return true;
  if (job.now.get<OnLoss>().response == LossResponse::hold) return false;
  JobInfo then = job;
  then.lost = std::move(lost);
  const std::vector<bool> replicas = lost_replicas(then);
  ParallelLayout working = job.layout;
  working.data = static_cast<std::uint32_t>(std::count(replicas.begin(), replicas.end(), false));
  return fits_replicas(job.spec, job.micro_batches(), working) && can_run(working.data);
}

}  // namespace

ReturnOrders returns_of(const JobInfo& job, const std::vector<GpuId>& heard,
                        const std::function<bool(std::uint32_t replicas)>& can_run) {
  ReturnOrders orders;
  std::vector<GpuId> back;
  for (const GpuId gpu : heard) {
    const ProcessRole role = role_of(job, gpu);
    if (role == ProcessRole::starting || role == ProcessRole::working) {
      orders.readmit.push_back(gpu);
    } else if (!job.next && !job.is_restarting && job.gpus.contains(gpu)) {
      back.push_back(gpu);
    } else {
      orders.end.push_back(gpu);
    }
  }
  if (back.empty() || !can_run_without(job, lost_after_return(job, back), can_run)) return orders;
  orders.readmit.insert(orders.readmit.end(), back.begin(), back.end());
  return orders;
}

JobStarted start_after_return(const JobInfo& job, const std::vector<GpuId>& back) {
  JobStarted start = start_of(job, job.step, {job.gpus, job.layout});
  start.lost = lost_after_return(job, back);
  return start;
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

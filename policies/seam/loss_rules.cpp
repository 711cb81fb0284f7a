// Rules of job_lifecycle.hpp for ranks that fall silent, are lost and return.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "policies/seam/job_lifecycle.hpp"

namespace orrery {
namespace {

void sort_uniquely(std::vector<RankId>& ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

}  // namespace

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

}  // namespace orrery

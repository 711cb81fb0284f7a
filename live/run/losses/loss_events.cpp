// Losses of ranks from the end of a process to the event for the policies, and the return of silent
// ranks: the part of Recovery that corresponds to sim/training/loss_events.
#include <algorithm>
#include <utility>

#include "live/run/losses/recovery.hpp"
#include "policies/seam/job_lifecycle.hpp"

namespace orrery::live {

bool Recovery::record_exit(std::uint32_t seat, bool was_member) {
  if (dismissed_.erase(seat) > 0) return false;
  const bool told = std::find(untold_.begin(), untold_.end(), seat) != untold_.end();
  if (!was_member || told || !placement_.is_working(seat)) {
    if (placement_.is_pending(seat)) control_.replace(seat);
    return false;
  }
  untold_.push_back(seat);
  return true;
}

bool Recovery::is_nobody_left() const {
  if (restoring_ == job().epoch && job().next) return false;
  const RankStates& ranks = control_.states();
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    const bool told = std::find(untold_.begin(), untold_.end(), seat) != untold_.end();
    const bool left = placement_.is_leaving(seat) && !ranks.at(seat).is_running;
    if (placement_.is_working(seat) && !told && !left) return false;
  }
  return job().gpus.size() > 0 && !job().is_restarting && !ranks.has_state_holder;
}

bool Recovery::begin_restore(Step next) {
  if (!job().next || job().saved_at == 0 || next < least_progress_) return false;
  restoring_ = job().epoch;
  least_progress_ = next + 1;
  return true;
}

bool Recovery::may_rank_return() const {
  const RankStates& ranks = control_.states();
  return std::any_of(job().gpus.begin(), job().gpus.end(), [&](GpuId gpu) {
    return !placement_.is_working(gpu.value) && ranks.at(gpu.value).is_running;
  });
}

void Recovery::review_heard_ranks() {
  const RankStates& ranks = control_.states();
  const std::vector<std::uint32_t> all = ranks.ranks_with(&RankState::is_heard_again);
  if (ranks.waits_for_fenced) {
    for (const std::uint32_t seat : all) control_.readmit_rank(seat);
    return;
  }
  if (has_done_all_steps(job())) return;
  std::vector<GpuId> heard;
  for (const std::uint32_t seat : all) {
    if (placement_.is_on_healthy_gpu(seat)) {
      heard.push_back({seat});
    } else {
      control_.withdraw_rank(seat);
    }
  }
  const ReturnOrders orders = returns_of(job(), heard, can_run_);
  for (const GpuId gpu : orders.end) control_.withdraw_rank(gpu.value);
  for (const GpuId gpu : orders.readmit) control_.readmit_rank(gpu.value);
}

void Recovery::return_ranks(const std::vector<std::uint32_t>& members) {
  if (!untold_.empty() || job().next || has_done_all_steps(job())) return;
  std::vector<GpuId> back;
  for (const std::uint32_t seat : members) {
    if (!placement_.is_working(seat)) back.push_back({seat});
  }
  back = returns_of(job(), back, can_run_).readmit;
  if (back.empty()) return;
  carrier_.emit_event(start_after_return(job(), back));
  gate_.expire_settings(kLiveJob);
  held_since_ = kNever;
}

void Recovery::emit_losses() {
  if (untold_.empty()) return;
  std::vector<RankId> lost;
  for (const std::uint32_t seat : std::exchange(untold_, {})) {
    lost.push_back(*placement_.rank_in(seat));
  }
  carrier_.emit_event(loss_of(job(), std::move(lost)));
  gate_.expire_settings(kLiveJob);
  const AfterLoss after = after_loss(job(), can_run_(without_lost(job()).layout.data));
  for (const GpuId gpu : after.replace) control_.replace(gpu.value);
  if (!after.held) return;
  carrier_.emit_event(JobHeld{kLiveJob});
  held_since_ = clock_.now();
}

}  // namespace orrery::live

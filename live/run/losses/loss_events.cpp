// Losses of ranks from the end of a process to the event for the policies: the part of Recovery
// that corresponds to sim/training/loss_events.
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
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    const bool told = std::find(untold_.begin(), untold_.end(), seat) != untold_.end();
    const bool left = placement_.is_leaving(seat) && !control_.is_running(seat);
    if (placement_.is_working(seat) && !told && !left) return false;
  }
  return job().gpus.size() > 0 && !job().is_restarting && !control_.has_state_holder();
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

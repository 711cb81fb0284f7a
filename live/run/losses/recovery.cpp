#include "live/run/losses/recovery.hpp"

#include <algorithm>
#include <csignal>
#include <utility>
#include <variant>

namespace orrery::live {

bool Recovery::died(std::uint32_t seat, bool was_member) {
  if (placement_.to_leave(seat)) return false;
  const bool told = std::find(untold_.begin(), untold_.end(), seat) != untold_.end();
  if (!was_member || told || !placement_.works(seat)) {
    if (placement_.wanted(seat)) control_.replace(seat);
    return false;
  }
  untold_.push_back(seat);
  return true;
}

void Recovery::tell_losses() {
  if (untold_.empty()) return;
  RanksLost lost{.job = kLiveJob, .ranks = {}, .epoch = {job().epoch.value + 1}};
  for (const std::uint32_t seat : std::exchange(untold_, {})) {
    lost.ranks.push_back(*placement_.rank_in(seat));
  }
  std::sort(lost.ranks.begin(), lost.ranks.end());
  carrier_.happen(lost);
  gate_.membership_changed(kLiveJob);
  if (job().next) {
    for (const RankId rank : job().lost) control_.replace(job().gpus[rank.value].value);
  }
  const bool holds = job().now.get<OnLoss>().response == LossResponse::hold;
  if (!holds && can_go_on(job())) return;
  carrier_.happen(JobHeld{kLiveJob});
  held_since_ = clock_.now();
}

void Recovery::assign(const Assign& assign, Step next) {
  for (const GpuId gpu : assign.gpus) {
    placement_.try_again(gpu.value);
    if (!placement_.works(gpu.value)) control_.replace(gpu.value);
  }
  if (control_.running()) come_true(control_.members(), next);
}

void Recovery::give_up(std::uint32_t seat, Step next) {
  placement_.give_up(seat);
  if (control_.running()) come_true(control_.members(), next);
}

/// Those that are not wanted any more end now, not before: nobody else may have had the state. A
/// step under way is done again by the others.
void Recovery::come_true(const std::vector<std::uint32_t>& members, Step next) {
  if (!untold_.empty() || !placement_.assembled(members)) return;
  const Standing where = placement_.coming();
  for (const std::uint32_t seat : members) {
    if (placement_.to_leave(seat)) control_.signal(seat, SIGKILL);
  }
  if (members.size() != where.gpus.size()) return;
  carrier_.happen(
      JobStarted{.job = kLiveJob, .epoch = {job().epoch.value + 1}, .from = next, .where = where});
  gate_.membership_changed(kLiveJob);
  held_since_ = kNever;
}

bool Recovery::deserted() const {
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    if (control_.running(seat) || placement_.wanted(seat)) return false;
  }
  return true;
}

std::vector<std::uint32_t> Recovery::end_missing(const std::vector<std::uint32_t>& members) {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    const bool there = std::find(members.begin(), members.end(), seat) != members.end();
    if (there || !placement_.works(seat) || placement_.to_leave(seat)) continue;
    control_.signal(seat, SIGKILL);
    missing.push_back(seat);
  }
  return missing;
}

void Recovery::resume() {
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    if (placement_.wanted(seat) && !control_.running(seat)) control_.replace(seat);
    if (placement_.to_leave(seat) && placement_.works(seat)) control_.signal(seat, SIGKILL);
  }
}

bool Recovery::waits_in_vain(bool shown) const {
  if (!held() || job().next) return false;
  return hold_limit_ ? clock_.now() - held_since_ > *hold_limit_ : shown;
}

void Recovery::told(const Event& event, Nanos at) {
  if (std::holds_alternative<JobHeld>(event)) held_since_ = at;
  if (std::holds_alternative<JobStarted>(event)) held_since_ = kNever;
}

}  // namespace orrery::live

#include "live/run/losses/recovery.hpp"

#include <algorithm>
#include <csignal>
#include <utility>
#include <variant>

namespace orrery::live {

bool Recovery::record_exit(std::uint32_t seat, bool was_member) {
  if (placement_.is_leaving(seat)) return false;
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
  return job().gpus.size() > 0;
}

void Recovery::emit_losses() {
  if (untold_.empty()) return;
  RanksLost lost{.job = kLiveJob, .ranks = {}, .epoch = {job().epoch.value + 1}};
  for (const std::uint32_t seat : std::exchange(untold_, {})) {
    lost.ranks.push_back(*placement_.rank_in(seat));
  }
  std::sort(lost.ranks.begin(), lost.ranks.end());
  carrier_.emit_event(lost);
  gate_.expire_settings(kLiveJob);
  if (job().next) {
    for (const RankId rank : job().lost) control_.replace(job().gpus[rank.value].value);
  }
  const bool holds = job().now.get<OnLoss>().response == LossResponse::hold;
  if (!holds && can_go_on(job())) return;
  carrier_.emit_event(JobHeld{kLiveJob});
  held_since_ = clock_.now();
}

void Recovery::accept_assignment(const Assign& assign, Step next) {
  for (const GpuId gpu : assign.gpus) {
    placement_.try_again(gpu.value);
    if (!placement_.is_working(gpu.value)) control_.replace(gpu.value);
  }
  if (is_held()) held_since_ = clock_.now();
  if (control_.is_running()) activate_assignment(control_.members(), next);
}

void Recovery::abandon_seat(std::uint32_t seat, Step next) {
  placement_.abandon_seat(seat);
  if (control_.is_running()) activate_assignment(control_.members(), next);
}

/// Processes that leave are killed now and not before, because only they may have held the state.
/// The other ranks repeat the current step.
void Recovery::activate_assignment(const std::vector<std::uint32_t>& members, Step next) {
  if (!untold_.empty() || !placement_.is_assembled(members)) return;
  const Standing where = placement_.pending_placement();
  for (const std::uint32_t seat : members) {
    if (placement_.is_leaving(seat)) control_.signal(seat, SIGKILL);
  }
  if (members.size() != where.gpus.size()) return;
  carrier_.emit_event(
      JobStarted{.job = kLiveJob, .epoch = {job().epoch.value + 1}, .from = next, .where = where});
  gate_.expire_settings(kLiveJob);
  held_since_ = kNever;
}

bool Recovery::is_deserted() const {
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    if (control_.is_running(seat) || placement_.is_pending(seat)) return false;
  }
  return true;
}

std::vector<std::uint32_t> Recovery::end_missing(const std::vector<std::uint32_t>& members) {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    const bool there = std::find(members.begin(), members.end(), seat) != members.end();
    if (there || !placement_.is_working(seat) || placement_.is_leaving(seat)) continue;
    control_.signal(seat, SIGKILL);
    missing.push_back(seat);
  }
  return missing;
}

void Recovery::resume_interrupted() {
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    if (placement_.is_pending(seat) && !control_.is_running(seat)) control_.replace(seat);
    if (placement_.is_leaving(seat) && placement_.is_working(seat)) control_.signal(seat, SIGKILL);
  }
}

bool Recovery::is_hold_unanswerable(bool shown) const {
  if (!is_held()) return false;
  return hold_limit_ ? clock_.now() - held_since_ > *hold_limit_ : shown && !job().next;
}

void Recovery::apply_reported(const Event& event, Nanos at) {
  if (std::holds_alternative<JobHeld>(event)) held_since_ = at;
  if (std::holds_alternative<JobStarted>(event)) held_since_ = kNever;
}

}  // namespace orrery::live

#include "live/run/losses/recovery.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "policies/seam/job_lifecycle.hpp"
#include "topologies/failure_domain.hpp"

namespace orrery::live {
namespace {

/// Longest time for which a move waits for shards.
constexpr Nanos kLongestDelay = 10'000'000'000;

}  // namespace

void Recovery::accept_assignment(const Assign& assign) {
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    if (placement_.is_stray(seat)) control_.withdraw_rank(seat);
  }
  for (const GpuId gpu : assign.gpus) placement_.try_again(gpu.value);
  start_missing();
}

void Recovery::start_missing() {
  if (!job().next) return;
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    if (placement_.is_pending(seat)) control_.replace(seat);
  }
  if (is_held()) held_since_ = clock_.now();
}

void Recovery::mark_released() {
  untold_.clear();
  dismissed_.clear();
  held_since_ = clock_.now();
}

void Recovery::dismiss_rank(std::uint32_t seat) {
  dismissed_.insert(seat);
  control_.signal(seat, SIGKILL);
}

bool Recovery::is_step_abandoned() const {
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    if (placement_.is_leaving(seat)) return true;
  }
  return false;
}

void Recovery::end_strays(const std::vector<std::uint32_t>& members) {
  for (const std::uint32_t seat : members) {
    if (placement_.is_stray(seat)) control_.withdraw_rank(seat);
  }
}

void Recovery::abandon_seat(std::uint32_t seat, Step next) {
  placement_.abandon_seat(seat);
  activate_when_ready(false, next);
}

std::vector<std::uint32_t> Recovery::leaving_together(
    const std::vector<std::uint32_t>& members) const {
  std::vector<std::uint32_t> keepers;
  if (sharded_on_ != nullptr) {
    std::vector<FailureDomain> domains;
    for (const std::uint32_t seat : members) {
      domains.push_back(failure_domain(*sharded_on_, {seat}));
    }
    keepers = copy_keepers(domains);
  }
  std::vector<bool> is_needed(members.size());  // holds the last copy of a part
  std::vector<std::uint32_t> leaving;
  for (std::size_t index = 0; index < members.size(); ++index) {
    if (!placement_.is_leaving(members[index]) || is_needed[index]) continue;
    leaving.push_back(members[index]);
    if (keepers.empty()) continue;
    is_needed[keepers[index]] = true;
    for (std::size_t other = 0; other < keepers.size(); ++other) {
      if (keepers[other] == index) is_needed[other] = true;
    }
  }
  return leaving;
}

bool Recovery::is_move_delayed(const std::vector<std::uint32_t>& leaving) {
  if (!writes_shard_ || std::none_of(leaving.begin(), leaving.end(), writes_shard_)) {
    delayed_since_ = kNever;
    return false;
  }
  if (delayed_since_ == kNever) delayed_since_ = clock_.now();
  return clock_.now() - delayed_since_ < kLongestDelay;
}

/// Processes that leave are killed now and not before, because only they may have held the state.
/// The other ranks repeat the current step. If the state is sharded, the others take over the parts
/// of the leaving processes before the next ones leave.
void Recovery::activate_assignment(const std::vector<std::uint32_t>& members, Step next) {
  if (!untold_.empty() || !placement_.is_assembled(members) || has_done_all_steps(job())) return;
  const Standing where = placement_.pending_placement();
  const std::vector<std::uint32_t> leaving = leaving_together(members);
  if (is_move_delayed(leaving)) return;
  for (const std::uint32_t seat : leaving) dismiss_rank(seat);
  if (sharded_on_ != nullptr && !leaving.empty()) return;
  end_strays(members);
  if (members.size() != where.gpus.size()) return;
  dismissed_.clear();
  carrier_.emit_event(start_of(job(), next, where));
  gate_.expire_settings(kLiveJob);
  held_since_ = kNever;
}

void Recovery::activate_when_ready(bool in_step, Step next) {
  const RankStates& ranks = control_.states();
  if (!ranks.is_epoch_formed || (in_step && !is_step_abandoned())) return;
  activate_assignment(ranks.ranks_with(&RankState::is_member), next);
}

bool Recovery::is_deserted() const {
  const RankStates& ranks = control_.states();
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    if (ranks.at(seat).is_running || placement_.is_pending(seat)) return false;
  }
  return true;
}

std::vector<std::uint32_t> Recovery::fence_missing(const std::vector<std::uint32_t>& members) {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t seat = 0; seat < placement_.seats(); ++seat) {
    const bool there = std::find(members.begin(), members.end(), seat) != members.end();
    if (there || !placement_.is_working(seat) || placement_.is_leaving(seat)) continue;
    control_.fence(seat);
    missing.push_back(seat);
  }
  return missing;
}

bool Recovery::is_hold_unanswerable(bool shown) const {
  if (!is_held()) return false;
  const Nanos held = clock_.now() - held_since_;
  if (hold_limit_) return held > *hold_limit_;
  const bool may_return = may_rank_return() && held <= control_.states().patience;
  return shown && !job().next && !may_return;
}

bool Recovery::can_be_assigned(bool is_call_due) const {
  return is_call_due && hold_limit_ && is_held() && !job().next && job().saved_at > 0 &&
         !is_hold_unanswerable(true);
}

}  // namespace orrery::live

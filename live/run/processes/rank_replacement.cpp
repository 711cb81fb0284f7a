// Replacements of lost ranks, warm spares and fenced ranks: the part of RankProcesses that decides
// which processes are started and ended.
#include <algorithm>
#include <csignal>

#include "live/control/membership_wire.hpp"
#include "live/run/processes/crew.hpp"

namespace orrery::live {

bool RankProcesses::is_alive(std::uint32_t rank) const {
  const Seat newest{rank, agents_.life(rank)};
  return agents_.is_running(rank) && !dead_.contains(newest) && !coordinator_.is_fenced(newest);
}

void RankProcesses::replace(std::uint32_t rank) {
  are_states_old_ = true;
  const auto spare = spares_.extract(rank);
  const bool runs = is_alive(rank);
  if (spare && runs && rolled_back_) {
    dead_.insert({rank, agents_.life(rank)});  // it would not begin with the restored state
    agents_.signal(rank, SIGKILL);
  } else if (spare && runs) {
    if (spare.mapped()) coordinator_.on_status(from_wire(*spare.mapped()), now());
    return;
  }
  const bool lives = runs && !(spare && rolled_back_);
  if (!lives && !replacements_.is_requested(rank)) replacements_.request_restart(rank, now());
}

void RankProcesses::withdraw_rank(std::uint32_t rank) {
  if (spares_.contains(rank)) return;
  are_states_old_ = true;
  replacements_.cancel_restart(rank);
  if (!agents_.is_running(rank) || coordinator_.may_need_fenced(rank, now())) return;
  const std::vector<Seat> heard = coordinator_.heard_again();
  const bool is_heard = std::any_of(heard.begin(), heard.end(),
                                    [rank](const Seat& seat) { return seat.rank == rank; });
  if (is_heard && !agents_.is_elsewhere(rank)) {
    return agents_.send_stop(rank, "the rank counts as lost, and its place is taken", false);
  }
  agents_.signal(rank, SIGKILL);
}

void RankProcesses::fence(std::uint32_t rank) {
  are_states_old_ = true;
  if (is_alive(rank)) coordinator_.fence_process({rank, agents_.life(rank)}, now());
}

void RankProcesses::readmit_rank(std::uint32_t rank) {
  are_states_old_ = true;
  replacements_.cancel_restart(rank);
  coordinator_.readmit_rank(rank, now());
}

void RankProcesses::fence_former_members(
    const std::function<bool(std::uint32_t rank)>& is_working) {
  for (std::uint32_t rank = 0; rank < agents_.ranks(); ++rank) {
    if (was_member({rank, agents_.life(rank)}) && !is_working(rank)) fence(rank);
  }
}

void RankProcesses::set_spares(const std::vector<std::uint32_t>& ranks) {
  std::vector<std::uint32_t> former;
  for (const auto& [rank, status] : spares_) {
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) former.push_back(rank);
  }
  for (const std::uint32_t rank : former) {
    spares_.erase(rank);
    withdraw_rank(rank);
  }
  for (const std::uint32_t rank : ranks) {
    if (!spares_.try_emplace(rank).second) continue;
    are_states_old_ = true;
    if (is_alive(rank)) continue;
    if (!replacements_.is_requested(rank)) replacements_.request_restart(rank, now());
  }
}

void RankProcesses::start_replacements(std::vector<RankEvent>& events) {
  const auto start = [this](std::uint32_t rank) {
    if (!coordinator_.is_fenced(rank)) return agents_.restart_rank(rank);
    // A fenced process elsewhere returns by itself, or its engine starts the next one.
    const bool stays = agents_.is_elsewhere(rank) || coordinator_.may_need_fenced(rank, now());
    if (!stays) agents_.signal(rank, SIGKILL);
    return false;
  };
  for (const std::uint32_t rank : replacements_.start(now(), start)) {
    events.emplace_back(GivenUp{rank, causes_[{rank, agents_.life(rank)}]});
  }
}

}  // namespace orrery::live

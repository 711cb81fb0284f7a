// Replacements of lost ranks, and warm spares: the part of RankProcesses that decides which
// processes are started.
#include <algorithm>
#include <csignal>

#include "live/control/membership_wire.hpp"
#include "live/run/processes/crew.hpp"

namespace orrery::live {

bool RankProcesses::is_alive(std::uint32_t rank) const {
  return agents_.is_running(rank) && !dead_.contains({rank, agents_.life(rank)});
}

bool RankProcesses::has_answering_spare(std::uint32_t rank) const {
  const auto spare = spares_.find(rank);
  return spare != spares_.end() && spare->second && is_alive(rank);
}

void RankProcesses::replace(std::uint32_t rank) {
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
  if (is_spare(rank)) return;
  replacements_.cancel_restart(rank);
  if (agents_.is_running(rank)) agents_.signal(rank, SIGKILL);
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
    if (!spares_.try_emplace(rank).second || is_alive(rank)) continue;
    if (!replacements_.is_requested(rank)) replacements_.request_restart(rank, now());
  }
}

void RankProcesses::start_replacements(std::vector<RankEvent>& events) {
  const auto start = [this](std::uint32_t rank) { return agents_.restart_rank(rank); };
  for (const std::uint32_t rank : replacements_.start(now(), start)) {
    events.emplace_back(GivenUp{rank, causes_[{rank, agents_.life(rank)}]});
  }
}

}  // namespace orrery::live

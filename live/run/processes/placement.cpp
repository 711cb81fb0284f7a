#include "live/run/processes/placement.hpp"

#include <algorithm>

namespace orrery::live {

std::optional<RankId> Placement::rank_in(std::uint32_t seat) const {
  if (job().is_restarting) return {};
  return rank_on(job(), {seat});
}

bool Placement::is_pending(std::uint32_t seat) const {
  return role_of(job(), {seat}) == ProcessRole::starting && !given_up_.contains(seat);
}

bool Placement::is_leaving(std::uint32_t seat) const {
  return role_of(job(), {seat}) == ProcessRole::leaving;
}

bool Placement::is_stray(std::uint32_t seat) const {
  return role_of(job(), {seat}) == ProcessRole::none;
}

std::vector<std::uint32_t> Placement::awaited_seats() const {
  std::vector<std::uint32_t> awaited;
  for (std::uint32_t seat = 0; seat < seats_; ++seat) {
    if (is_working(seat) || is_pending(seat)) awaited.push_back(seat);
  }
  return awaited;
}

std::vector<std::uint32_t> Placement::spare_seats(std::uint32_t count) const {
  std::vector<std::uint32_t> spares;
  for (std::uint32_t seat = 0; seat < seats_ && spares.size() < count; ++seat) {
    const NodeId node = world_.cluster().node_of({seat});
    const bool stays = is_on_healthy_gpu(seat) && !world_.state().is_to_be_removed({seat}, node);
    if (stays && is_stray(seat) && !job().gpus.contains({seat})) spares.push_back(seat);
  }
  return spares;
}

bool Placement::is_on_healthy_gpu(std::uint32_t seat) const {
  return world_.state().is_healthy({seat}, world_.cluster().node_of({seat}));
}

std::uint32_t Placement::share(std::uint32_t seat) const {
  const auto rank = rank_in(seat);
  return rank ? job().shares()[job().layout.replica_of(*rank)] : 0;
}

Standing Placement::pending_placement() const {
  Standing where = *job().next;
  if (given_up_.empty()) return where;
  where.gpus = {};
  for (const GpuId gpu : job().next->gpus) {
    if (!given_up_.contains(gpu.value)) where.gpus.push_back(gpu);
  }
  where.layout.data = static_cast<std::uint32_t>(where.gpus.size());
  return where;
}

bool Placement::is_assembled(const std::vector<std::uint32_t>& members) const {
  if (!job().next) return false;
  const Standing where = pending_placement();
  return where.gpus.size() > 0 &&
         std::all_of(where.gpus.begin(), where.gpus.end(), [&members](GpuId gpu) {
           return std::find(members.begin(), members.end(), gpu.value) != members.end();
         });
}

bool Placement::is_complete(const std::vector<std::uint32_t>& members) const {
  return !is_assembled(members) && members.size() == counted() &&
         std::all_of(members.begin(), members.end(),
                     [this](std::uint32_t seat) { return is_working(seat); });
}

}  // namespace orrery::live

#include "live/run/metrics/cpu_meter.hpp"

#include <algorithm>

namespace orrery::live {

CpuMeter::CpuMeter(std::uint32_t ranks, const std::vector<Nanos>& so_far)
    : ranks_(std::max<std::size_t>(ranks, so_far.size())) {
  for (std::size_t rank = 0; rank < so_far.size(); ++rank) ranks_[rank].before = so_far[rank];
}

CpuMeter::Rank& CpuMeter::counters_of(std::uint32_t rank) {
  if (rank >= ranks_.size()) ranks_.resize(rank + 1);
  return ranks_[rank];
}

void CpuMeter::hello(std::uint32_t rank, std::uint32_t life) {
  Rank& known = counters_of(rank);
  if (known.life == life) return;
  known.life = life;
  known.before += known.own();
  known.first = -1;
}

void CpuMeter::record_cpu_time(std::uint32_t rank, Nanos cpu) {
  Rank& known = counters_of(rank);
  if (known.first < 0) known.first = cpu;
  known.newest = cpu;
}

std::vector<Nanos> CpuMeter::so_far() const {
  std::vector<Nanos> used;
  for (const Rank& rank : ranks_) used.push_back(rank.before + rank.own());
  return used;
}

Nanos CpuMeter::total() const {
  Nanos total = 0;
  for (const Rank& rank : ranks_) total += rank.before + rank.own();
  return total;
}

}  // namespace orrery::live

#include "live/fault_schedule.hpp"

#include <algorithm>

namespace orrery::live {

std::vector<FaultSchedule::Strike> FaultSchedule::due(Step step, Nanos now,
                                                      std::span<const std::uint32_t> members) {
  std::vector<Strike> strikes;
  for (int i = 0; i < scenario_.faults_size(); ++i) {
    const Fault& fault = scenario_.faults(i);
    const bool begun = fault.has_at_time() ? fault.at_time() <= now : fault.at_step() <= step;
    if (!begun || injected_.contains(i)) continue;
    const std::uint32_t rank = fault.rank();
    const bool strikes_down = (fault.kill() || fault.stop()) && rank < ranks_;
    const bool there = std::find(members.begin(), members.end(), rank) != members.end();
    if (strikes_down && fault.has_at_step() && fault.at_step() < first_) continue;
    if (strikes_down && (!there || struck_.contains(rank))) continue;
    injected_.insert(i);
    if (!strikes_down) continue;
    struck_[rank] = now;
    strikes.push_back({.fault = i, .rank = rank, .stop = fault.stop()});
  }
  return strikes;
}

Nanos FaultSchedule::next_instant(Nanos now) const {
  Nanos at = kNever;
  for (const Fault& fault : scenario_.faults()) {
    if (fault.has_at_time() && fault.at_time() > now) at = std::min(at, fault.at_time());
  }
  return at;
}

std::optional<Nanos> FaultSchedule::noticed(std::uint32_t rank) {
  const auto struck = struck_.extract(rank);
  if (struck.empty()) return std::nullopt;
  return struck.mapped();
}

void FaultSchedule::restore(int fault, std::uint32_t rank, Nanos at, bool noticed) {
  injected_.insert(fault);
  if (!noticed) struck_[rank] = at;
}

}  // namespace orrery::live

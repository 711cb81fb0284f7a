#include "sim/replay/held_jobs.hpp"

#include <algorithm>
#include <utility>

#include "traces/jobs/job_dependencies.hpp"

namespace orrery::sim {

HeldJobs::HeldJobs(const NumberedTrace& trace) {
  for (const auto& [row, first] : job_dependencies(trace.all_rows()).after) {
    const std::uint32_t number = trace.number_of_row(row);
    if (number == NumberedTrace::kRejected) continue;
    for (const std::size_t before : first) {
      const std::uint32_t other = trace.number_of_row(before);
      if (other == NumberedTrace::kRejected) continue;
      dependents_[other].push_back(number);
      ++missing_[number];
    }
  }
}

bool HeldJobs::record_arrival(std::uint32_t number) {
  if (!missing_.contains(number)) return true;
  held_.insert(number);
  return false;
}

void HeldJobs::record_end(std::uint32_t number) {
  const auto dependents = dependents_.find(number);
  if (dependents == dependents_.end()) return;
  for (const std::uint32_t dependent : dependents->second) {
    const auto missing = missing_.find(dependent);
    if (--missing->second > 0) continue;
    missing_.erase(missing);
    if (held_.erase(dependent) > 0) released_.push_back(dependent);
  }
  dependents_.erase(dependents);
}

std::vector<std::uint32_t> HeldJobs::drain_released() {
  std::sort(released_.begin(), released_.end());
  return std::exchange(released_, {});
}

}  // namespace orrery::sim

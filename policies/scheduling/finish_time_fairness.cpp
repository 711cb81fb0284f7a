#include "policies/scheduling/finish_time_fairness.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace orrery {

RankedPolicy::Jobs FinishTimeFairnessPolicy::select(const Jobs& jobs, std::uint64_t gpus,
                                                    Nanos now) {
  std::vector<std::pair<double, const Track*>> latest;
  for (const Track* const job : jobs) {
    const double whole = to_seconds(std::max(job->estimate, kNanosPerSecond));
    const double left = std::max(0.0, whole - to_seconds(job->had(now)));
    const double shares = static_cast<double>(job->gpus) * static_cast<double>(jobs.size()) /
                          static_cast<double>(gpus);
    latest.emplace_back((to_seconds(now - job->submit) + left) / (whole * std::max(1.0, shares)),
                        job);
  }
  return highest_first(std::move(latest), gpus);
}

}  // namespace orrery

#include "policies/queues/finish_time_fairness.hpp"

#include <algorithm>
#include <vector>

namespace orrery {

RankedPolicy::Jobs FinishTimeFairnessPolicy::select_jobs(const Jobs& jobs, std::uint64_t gpus,
                                                    Nanos now) {
  std::vector<Ranked> latest;
  latest.reserve(jobs.size());
  for (Track* const job : jobs) {
    const double whole = to_seconds(std::max(job->estimate, kNanosPerSecond));
    const double left = std::max(0.0, whole - to_seconds(job->service_at(now)));
    const double shares = static_cast<double>(job->gpus) * static_cast<double>(jobs.size()) /
                          static_cast<double>(gpus);
    const double rho = (to_seconds(now - job->submit) + left) / (whole * std::max(1.0, shares));
    latest.push_back({rho, job});
  }
  return highest_first(latest, gpus);
}

}  // namespace orrery

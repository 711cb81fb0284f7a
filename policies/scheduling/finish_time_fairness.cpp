#include "policies/scheduling/finish_time_fairness.hpp"

#include <algorithm>
#include <map>

namespace orrery {

RankedPolicy::Jobs FinishTimeFairnessPolicy::select(const Jobs& jobs, std::uint64_t gpus,
                                                    Nanos now) {
  std::map<const Track*, double> rho;
  for (const Track* const job : jobs) {
    const double whole = to_seconds(std::max(job->estimate, kNanosPerSecond));
    const double left = std::max(0.0, whole - to_seconds(job->had(now)));
    const double shares = static_cast<double>(job->gpus) * static_cast<double>(jobs.size()) /
                          static_cast<double>(gpus);
    rho[job] = (to_seconds(now - job->submit) + left) / (whole * std::max(1.0, shares));
  }
  Jobs ordered = jobs;
  std::stable_sort(ordered.begin(), ordered.end(), [&rho](const Track* a, const Track* b) {
    return rho.at(a) != rho.at(b) ? rho.at(a) > rho.at(b) : a->submit < b->submit;
  });
  return greedily(ordered, gpus);
}

}  // namespace orrery

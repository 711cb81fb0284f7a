#include "policies/scheduling/gittins.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "policies/parameters.pb.h"

namespace orrery {

double gittins_index(const std::vector<double>& took, double had) {
  const auto first = std::upper_bound(took.begin(), took.end(), had);
  double best = 0, sum = 0, ending = 0;
  auto longer = static_cast<double>(took.end() - first);
  for (auto one = first; one != took.end(); ++one) {
    const double more = *one - had;
    sum += more;
    ending += 1;
    longer -= 1;
    best = std::max(best, ending / (sum + longer * more));
  }
  return best;
}

void GittinsPolicy::start(Context& context, const Cluster& cluster,
                          const google::protobuf::Message* parameters) {
  RankedPolicy::start(context, cluster, parameters);
  history_ = dynamic_cast<const GittinsParameters&>(*parameters).history();
}

void GittinsPolicy::ended(double gpu_seconds) {
  took_.push_back(gpu_seconds);
  if (took_.size() > history_) took_.pop_front();
}

RankedPolicy::Jobs GittinsPolicy::select(const Jobs& jobs, std::uint64_t gpus, Nanos now) {
  std::vector<double> took(took_.begin(), took_.end());
  std::sort(took.begin(), took.end());
  std::map<double, double> known;  // most jobs wait and have had nothing
  std::vector<std::pair<double, const Track*>> index;
  for (const Track* const job : jobs) {
    const double had = to_seconds(job->had(now)) * job->gpus;
    const auto [found, fresh] = known.try_emplace(had);
    if (fresh) found->second = gittins_index(took, had);
    index.emplace_back(found->second, job);
  }
  return highest_first(std::move(index), gpus);
}

}  // namespace orrery

#include "policies/queues/las.hpp"

#include <cmath>

#include "policies/parameters.pb.h"

namespace orrery {

void LasPolicy::start(Context& context, const Cluster& cluster,
                      const google::protobuf::Message* parameters) {
  PreemptivePolicy::start(context, cluster, parameters);
  threshold_gpu_s_ = dynamic_cast<const LasParameters&>(*parameters).threshold_gpu_s() *
                     cluster.shape().slices_per_gpu;
}

std::int64_t LasPolicy::key_of(const Track& job) const {
  if (crossed_.contains(job.place.job)) return 1;
  return to_seconds(job.served) * job.gpus > threshold_gpu_s_ ? 1 : 0;
}

std::int64_t LasPolicy::rank(const JobPlace& place, std::uint32_t, bool, Nanos) const {
  return place.key;
}

Nanos LasPolicy::crossing(const Track& job) const {
  const double left = threshold_gpu_s_ - to_seconds(job.served) * job.gpus;
  return job.since + (static_cast<Nanos>(std::floor(left / job.gpus)) + 1) * kNanosPerSecond;
}

void LasPolicy::runs(const Track& job) {
  if (job.place.key == 0) crossings_.emplace(crossing(job), job.place.job);
}

void LasPolicy::on_idle(const Track& job) {
  if (job.place.key == 0) crossings_.erase({crossing(job), job.place.job});
  crossed_.erase(job.place.job);
}

/// Jobs that have had more than the threshold by now go to the second queue.
bool LasPolicy::is_due(Nanos now) {
  bool any = false;
  for (; !crossings_.empty() && crossings_.begin()->first <= now; any = true) {
    const JobId job = crossings_.begin()->second;
    crossings_.erase(crossings_.begin());
    crossed_.insert(job);
    file_anew(job);
  }
  return any;
}

void LasPolicy::after_pass(DecisionList& decisions) {
  if (!crossings_.empty()) decisions.wake(crossings_.begin()->first);
}

}  // namespace orrery

#include "policies/queues/priority.hpp"

#include <limits>

#include "policies/parameters.pb.h"

namespace orrery {

void PriorityPolicy::start(Context& context, const Cluster& cluster,
                           const google::protobuf::Message* parameters) {
  PreemptivePolicy::start(context, cluster, parameters);
  preempts_ = dynamic_cast<const PriorityParameters&>(*parameters).preempt();
}

/// Running jobs stand before waiting ones of their priority, or, if they keep their GPUs, before
/// all.
std::int64_t PriorityPolicy::rank(const JobPlace& place, std::uint32_t, bool running, Nanos) const {
  if (running && !preempts_) return std::numeric_limits<std::int64_t>::min();
  return 2 * place.key + (running ? 0 : 1);
}

}  // namespace orrery

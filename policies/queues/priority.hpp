// Priorities of the log, then order of submission; running jobs make room for jobs of a higher
// priority, never of an equal one. The backend adds the cost of preemption. Needs no estimates.
#pragma once

#include "policies/queues/preemptive.hpp"

namespace orrery {

/// Queue policy that serves the highest priority first.
class PriorityPolicy : public PreemptivePolicy {
 public:
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;

 protected:
  std::int64_t key_of(const Track& job) const override { return -job.priority; }
  std::int64_t rank(const JobPlace& place, std::uint32_t gpus, bool running,
                    Nanos now) const override;
  const char* reason() const override { return "highest priority"; }

 private:
  bool preempts_ = true;
};

}  // namespace orrery

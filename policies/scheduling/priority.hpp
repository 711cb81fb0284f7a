// By the priority that jobs have in the log, then by submission; running jobs make room for those
// of a higher one, never for their equals. What leaving and going on costs them is the backend's.
// Needs no estimates.
#pragma once

#include "policies/scheduling/preemptive.hpp"

namespace orrery {

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

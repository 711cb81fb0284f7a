// Least attained service in two queues, as Tiresias (Gu et al., NSDI 2019) has them: jobs that have
// had at most so many GPU-seconds go before those that have had more; within each, first come first
// served. Needs no estimates.
#pragma once

#include <set>
#include <utility>

#include "policies/scheduling/preemptive.hpp"

namespace orrery {

class LasPolicy : public PreemptivePolicy {
 public:
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;

 protected:
  std::int64_t key_of(const Track& job) const override;
  std::int64_t rank(const JobPlace& place, std::uint32_t gpus, bool running,
                    Nanos now) const override;
  const char* reason() const override { return "least service had"; }
  void runs(const Track& job) override;
  void rests(const Track& job) override;
  bool due(Nanos now) override;
  void passed(DecisionList& decisions) override;

 private:
  /// The first whole second of running at which it has had more than the threshold.
  Nanos crossing(const Track& job) const;

  double threshold_gpu_s_ = 0;
  std::set<std::pair<Nanos, JobId>> crossings_;  ///< of running jobs of the first queue
  std::set<JobId> crossed_;                      ///< running, since they were last started
};

}  // namespace orrery

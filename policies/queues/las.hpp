// Least attained service in two queues, as in Tiresias (Gu et al., NSDI 2019): jobs with at most
// the threshold of GPU-seconds go before jobs with more; within each queue first come, first
// served. Needs no estimates. For example, with a threshold of 3,600 GPU-seconds a 4-GPU job moves
// to the second queue after 15 minutes.
#pragma once

#include <set>
#include <utility>

#include "policies/queues/preemptive.hpp"

namespace orrery {

/// Queue policy with two queues by attained service.
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
  void on_idle(const Track& job) override;
  bool is_due(Nanos now) override;
  void after_pass(DecisionList& decisions) override;

 private:
  /// Returns the first whole second of running at which the job has more than the threshold.
  Nanos crossing(const Track& job) const;

  double threshold_gpu_s_ = 0;
  std::set<std::pair<Nanos, JobId>> crossings_;  ///< instants of running jobs of the first queue
  /// running jobs that have crossed the threshold since their newest start
  std::set<JobId> crossed_;
};

}  // namespace orrery

// Finish-time fairness (Themis; Mahajan et al., NSDI 2020): the job with the largest slowdown
// relative to its share of the cluster goes first. rho = (time since submission + time left) / time
// alone on 1/N of the GPUs, with N present jobs; a job larger than that share would take
// proportionally longer on it. Decided when jobs arrive and end, not by leases.
#pragma once

#include "policies/queues/ranked.hpp"

namespace orrery {

/// Queue policy that serves the largest rho first.
class FinishTimeFairnessPolicy : public RankedPolicy {
 private:
  Jobs select_jobs(const Jobs& jobs, std::uint64_t gpus, Nanos now) override;
  const char* reason() const override { return "latest for its share"; }
};

}  // namespace orrery

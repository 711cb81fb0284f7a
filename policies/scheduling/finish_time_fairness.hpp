// Finish-time fairness (Themis; Mahajan et al., NSDI 2020): who would end latest for what it would
// have taken on its share of the cluster goes first. rho = (time since submission + time left) /
// time alone on 1/N of the GPUs, N being the jobs that are there; a job that needs more than that
// share would take so many times longer there. Decided when jobs come and end, not by leases.
#pragma once

#include "policies/scheduling/ranked.hpp"

namespace orrery {

class FinishTimeFairnessPolicy : public RankedPolicy {
 private:
  Jobs select(const Jobs& jobs, std::uint64_t gpus, Nanos now) override;
  const char* reason() const override { return "latest for its share"; }
};

}  // namespace orrery

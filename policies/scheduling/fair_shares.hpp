// Fairness among virtual clusters (JobSpec::pool).
//
// drf      Dominant resource fairness (Ghodsi et al., NSDI 2011) by progressive filling: the
//          virtual cluster with the smallest share of its dominant resource starts its next job,
//          until nobody's next job fits. GPUs are the only resource that job logs tell, so they are
//          the dominant one. Running jobs keep their GPUs.
// max-min  Quotas, and what a virtual cluster leaves of its own is lent: first everybody's jobs as
//          far as its quota reaches, then whoever uses least of its quota borrows what is left for
//          its next job that fits. Borrowed GPUs are given back as soon as their owner has jobs for
//          them. Without quotas each of the virtual clusters that have jobs has an equal one, so
//          that is max-min fairness. Within a virtual cluster running jobs go before waiting ones,
//          and those in order of submission.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "policies/scheduling/ranked.hpp"

namespace orrery {

class DrfPolicy : public RankedPolicy {
 private:
  Jobs select(const Jobs& jobs, std::uint64_t gpus, Nanos now) override;
  bool makes_room() const override { return false; }
  const char* reason() const override { return "its virtual cluster has least"; }
};

class MaxMinPolicy : public RankedPolicy {
 public:
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;

 private:
  Jobs select(const Jobs& jobs, std::uint64_t gpus, Nanos now) override;
  const char* reason() const override { return "its virtual cluster's share"; }
  std::vector<std::uint64_t> quotas(const Jobs& jobs, std::uint64_t gpus) const;

  std::map<std::string, std::uint64_t> given_;
  bool borrows_ = true;
};

}  // namespace orrery

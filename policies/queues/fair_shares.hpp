// Fairness among virtual clusters (JobSpec::pool). drf: dominant resource fairness (Ghodsi et al.,
// NSDI 2011) by progressive filling; the virtual cluster with the smallest share of its dominant
// resource starts its next job, until no next job fits. GPUs are the only resource in job logs, so
// they are the dominant one. Running jobs keep their GPUs. max-min: quotas with lending; first all
// jobs within the quotas, then the virtual cluster that uses the smallest fraction of its quota
// borrows GPUs for its next fitting job. Borrowed GPUs return as soon as their owner has jobs for
// them. Without quotas all virtual clusters with jobs have equal quotas, which is max-min fairness.
// Within a virtual cluster running jobs go before waiting jobs, both in order of submission, then
// of the log. Of virtual clusters with equal shares, the one whose next job comes first in this
// order goes first.
// For example, two virtual clusters with quotas 4 and 4, of which one is idle, let the other use 8
// GPUs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "policies/queues/ranked.hpp"

namespace orrery {

/// Queue policy `drf`.
class DrfPolicy : public RankedPolicy {
 private:
  Jobs select_jobs(const Jobs& jobs, std::uint64_t gpus, Nanos now) override;
  bool can_make_room() const override { return false; }
  const char* reason() const override { return "its virtual cluster has least"; }
};

/// Queue policy `max-min`.
class MaxMinPolicy : public RankedPolicy {
 public:
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;

 private:
  Jobs select_jobs(const Jobs& jobs, std::uint64_t gpus, Nanos now) override;
  const char* reason() const override { return "its virtual cluster's share"; }
  std::vector<std::uint64_t> quotas(const Jobs& jobs, std::uint64_t gpus) const;

  std::map<std::string, std::uint64_t> given_;
  bool borrows_ = true;
};

}  // namespace orrery

// Fixed choice of collective algorithms: sets every job's table once, at its start, to thresholds
// from the scenario; without thresholds to "automatic" for all kinds. Registered as
// `collective-table`; one thread.
#pragma once

#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that sets a fixed table of collectives.
class CollectiveTablePolicy : public Policy {
 public:
  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  CollectiveTable table_;
  std::vector<JobId> told_;  ///< running jobs that have the table
};

}  // namespace orrery

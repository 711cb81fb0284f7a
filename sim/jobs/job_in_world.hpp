// A training job in its world: which one it is, what is known of it there, who decides about it and
// whom it tells. Its run and the parts of that share one; all that is referred to outlives it. One
// thread.
#pragma once

#include <utility>

#include "policies/seam/gate.hpp"
#include "policies/seam/world.hpp"
#include "sim/world/job_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

class JobInWorld {
 public:
  JobInWorld(const Scenario& scenario, const Cluster& cluster, const World& world,
             DecisionGate& gate, JobModel::Happen happen)
      : scenario_(scenario),
        cluster_(cluster),
        world_(world),
        gate_(gate),
        happen_(std::move(happen)) {}

  const Scenario& scenario() const { return scenario_; }
  const Cluster& cluster() const { return cluster_; }
  const World& world() const { return world_; }
  DecisionGate& gate() const { return gate_; }

  /// Known once it has been submitted.
  JobId id() const { return id_; }
  void submitted_as(JobId id) { id_ = id; }
  const JobInfo& job() const { return world_.jobs()[id_]; }
  void happen(Event event) const { happen_(std::move(event)); }

 private:
  const Scenario& scenario_;
  const Cluster& cluster_;
  const World& world_;
  DecisionGate& gate_;
  const JobModel::Happen happen_;
  JobId id_;
};

}  // namespace orrery::sim

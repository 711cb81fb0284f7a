// Training job in its world: its id, its known state, the gate of its decisions, and the receiver
// of its events. The parts of a training run share one object; all referenced objects must outlive
// it. One thread.
#pragma once

#include <utility>

#include "policies/seam/gate.hpp"
#include "policies/seam/world.hpp"
#include "sim/world/job_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Access of a training job to its world.
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

  /// Returns the id; valid after the submission.
  JobId id() const { return id_; }
  /// Sets the id at the submission.
  void submitted_as(JobId id) { id_ = id; }
  /// Returns the state of the job in the world.
  const JobInfo& job() const { return world_.jobs()[id_]; }
  /// Reports an event to the world.
  void emit_event(Event event) const { happen_(std::move(event)); }

 private:
  const Scenario& scenario_;
  const Cluster& cluster_;
  const World& world_;
  DecisionGate& gate_;
  const JobModel::Happen happen_;
  JobId id_;
};

}  // namespace orrery::sim

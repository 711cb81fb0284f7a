// Access of a training job to its world: id and state of the job, gate of its decisions, and
// receiver of its events. The parts of a training run share one object. One thread.
#pragma once

#include <utility>

#include "policies/seam/gate.hpp"
#include "policies/seam/world.hpp"
#include "sim/world/job_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Access of a training job to its world. All referenced objects must outlive this object.
class JobInWorld {
 public:
  /// Constructs the access. `happen`: passes an event of the job to the backend.
  JobInWorld(const Scenario& scenario, const Cluster& cluster, const World& world,
             DecisionGate& gate, JobModel::Happen happen)
      : scenario_(scenario),
        cluster_(cluster),
        world_(world),
        gate_(gate),
        happen_(std::move(happen)) {}

  /// Returns the scenario of the job.
  const Scenario& scenario() const { return scenario_; }
  /// Returns the cluster of the world.
  const Cluster& cluster() const { return cluster_; }
  /// Returns the state of cluster and jobs, with the job itself after its submission.
  const World& world() const { return world_; }
  /// Returns the gate, which holds the decisions about the job until they take effect.
  DecisionGate& gate() const { return gate_; }

  /// Returns the id of the job; valid after submitted_as().
  JobId id() const { return id_; }
  /// Sets the id of the job, which the world determines at the submission. Call before
  /// JobSubmitted is emitted.
  void submitted_as(JobId id) { id_ = id; }
  /// Returns the state of the job in the world; call after the submission.
  const JobInfo& job() const { return world_.jobs()[id_]; }
  /// Passes an event of the job to the backend, which applies the event to the world at once and
  /// shows it in the next observation. The backend first calls SteppedJob::emit_steps() of all
  /// models, unless the event is StepsDone. Throws an internal Error for an event that is
  /// impossible now (World::objection()).
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

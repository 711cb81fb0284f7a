// Whose GPUs are, and how many are free on each node: what World counts with, on its state. One
// thread, as World.
#pragma once

#include "policies/seam/cluster_state.hpp"
#include "policies/seam/gpu_runs.hpp"
#include "policies/seam/job.hpp"
#include "topologies/cluster.hpp"

namespace orrery {

/// All of them are there, and nobody's or the job's own.
bool unclaimed(const ClusterState& state, GpuRuns::Run run, JobId job);

class GpuOwners {
 public:
  /// `some_lost`: GPUs or nodes are lost, so that who owns a GPU does not say whether it is free.
  GpuOwners(const Cluster& cluster, ClusterState& state, bool some_lost)
      : cluster_(cluster), state_(state), some_lost_(some_lost) {}

  void claim(const GpuRuns& gpus, JobId job);
  /// Of the job's GPUs those that are not among `kept` are nobody's, or whose they are to be.
  void vacate(const JobInfo& job, const GpuRuns& kept);
  /// Those of the run that are still the job's are nobody's.
  void give_up(GpuRuns::Run run, JobId job);
  /// What is free on a node, by owners and health.
  void recount(NodeId node);

 private:
  void own(GpuRuns::Run run, JobId owner);
  void count_free(NodeId node);
  void mark_free(NodeId node, GpuRuns::Run run, bool free);

  const Cluster& cluster_;
  ClusterState& state_;
  const bool some_lost_;
};

}  // namespace orrery

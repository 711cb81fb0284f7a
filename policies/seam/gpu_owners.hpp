// Bookkeeping of GPU owners and of the free GPUs of each node, on World's state. One thread, as
// World.
#pragma once

#include "policies/seam/cluster_state.hpp"
#include "policies/seam/gpu_runs.hpp"
#include "policies/seam/job.hpp"
#include "topologies/cluster.hpp"

namespace orrery {

/// Returns true if all GPUs of the run are healthy and owned by `job` or by no job.
bool unclaimed(const ClusterState& state, GpuRuns::Run run, JobId job);

/// Writer of GPU owners and free counts of a ClusterState.
class GpuOwners {
 public:
  /// Constructs a writer. `some_lost`: some GPUs or nodes are lost, so that a GPU without an owner
  /// need not be free.
  GpuOwners(const Cluster& cluster, ClusterState& state, bool some_lost)
      : cluster_(cluster), state_(state), some_lost_(some_lost) {}

  /// Makes `job` the owner of the GPUs.
  void claim_gpus(const GpuRuns& gpus, JobId job);
  /// Releases the GPUs of the job that are not among `kept`; a GPU with a pending owner goes to
  /// that owner.
  void vacate_gpus(const JobInfo& job, const GpuRuns& kept);
  /// Releases the GPUs of the run that the job still owns.
  void release_run(GpuRuns::Run run, JobId job);
  /// Recounts the free GPUs of a node from owners and health.
  void recount_free(NodeId node);

 private:
  void own(GpuRuns::Run run, JobId owner);
  void count_free(NodeId node);
  void mark_free(NodeId node, GpuRuns::Run run, bool free);

  const Cluster& cluster_;
  ClusterState& state_;
  const bool some_lost_;
};

}  // namespace orrery

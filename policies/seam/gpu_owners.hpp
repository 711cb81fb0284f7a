// Writer of the GPU owners and free GPUs in World's ClusterState. Used by World only; one thread.
#pragma once

#include "policies/seam/cluster_state.hpp"
#include "policies/seam/gpu_runs.hpp"
#include "policies/seam/job.hpp"
#include "topologies/cluster.hpp"

namespace orrery {

/// Returns true if all GPUs of the run exist and are owned by `job` or by no job; false if one of
/// them is beyond the cluster. Does not check their health.
bool unclaimed(const ClusterState& state, GpuRuns::Run run, JobId job);

/// Writer of the GPU owners, free bits and free counts of a ClusterState, which the caller owns.
class GpuOwners {
 public:
  /// Constructs a writer; `cluster` and `state` must outlive the writer. `some_lost`: true if a GPU
  /// or node is lost, so that a GPU without an owner need not be free.
  GpuOwners(const Cluster& cluster, ClusterState& state, bool some_lost)
      : cluster_(cluster), state_(state), some_lost_(some_lost) {}

  /// Makes `job` the owner of the GPUs, which must exist, so that they are not free any more; takes
  /// them from other jobs too.
  void claim_gpus(const GpuRuns& gpus, JobId job);
  /// Releases the GPUs of the job and of its pending assignment that are not among `kept`. A GPU
  /// that another job has claimed in the meantime stays with that job.
  void vacate_gpus(const JobInfo& job, const GpuRuns& kept);
  /// Releases those GPUs of the run, which must exist, that the job owns; healthy ones become free.
  void release_run(GpuRuns::Run run, JobId job);
  /// Computes the free bits and the free count of a node again, from owners and health. Call after
  /// a change of the health of the node or of one of its GPUs.
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

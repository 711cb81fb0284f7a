// The nodes and jobs of a Slurm as a cluster and a job log of the simulator. Used by `orrery import
// cluster`. Pure functions, thread-safe. Seconds.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "live/queue/node_map.hpp"
#include "live/slurm/answers.hpp"
#include "traces/clusters/cluster_facts.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::live {

/// Returns the facts that Slurm's nodes state about the cluster: their number, their GPUs and, if
/// the types of their GPUs (Gres) name one GPU of the catalogue, its name. Smaller nodes and nodes
/// that are lost count as whole ones, which `assumed` says.
ClusterFacts node_facts(const std::vector<SlurmNode>& all, const NodeMap& nodes);

/// Returns the answer of `scontrol show topology` as a topology.conf: switches above the first
/// level without the nodes that they repeat. Empty if the answer has no switch or block.
std::string topology_conf(const std::string& answer);

/// Jobs of the queue at one instant, as a job log.
struct QueuedJobs {
  std::vector<TraceJob> jobs;        ///< placed ones first, then by submission; all submitted at 0
  std::vector<std::string> assumed;  ///< facts that Slurm's answer does not state
  std::vector<std::string> ignored;  ///< jobs left out, with the reason
};
/// Returns the placed and waiting jobs of these partitions (empty: all) that use GPUs. The duration
/// of a job is its time limit; a job without a limit is left out.
QueuedJobs queued_jobs(std::vector<SlurmJob> all, const std::set<std::string>& partitions);

}  // namespace orrery::live

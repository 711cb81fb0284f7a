// Nodes and jobs of a real cluster as a cluster and a job log of the simulator: the part that all
// schedulers share. Used by live/slurm, live/kubernetes and `orrery import cluster`. Pure
// functions, thread-safe. Seconds.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "live/queue/node_map.hpp"
#include "traces/clusters/cluster_facts.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::live {

/// Returns the facts that a scheduler's nodes state about the cluster: their number, their GPUs
/// and, if the types of their GPUs name one GPU of the catalogue, its name. Smaller nodes and nodes
/// that are lost count as whole ones, which `assumed` says. `scheduler` is its name for messages.
/// For example, nodes of the type "NVIDIA-H100-80GB-HBM3" have the GPU H100.
ClusterFacts node_facts(std::string_view scheduler, const std::vector<QueueNode>& all,
                        const NodeMap& nodes);

/// Jobs of a queue at one instant, as a job log.
struct QueuedJobs {
  std::vector<TraceJob> jobs;        ///< placed ones first, then by submission; all submitted at 0
  std::vector<std::string> assumed;  ///< facts that the scheduler does not state
  std::vector<std::string> ignored;  ///< jobs left out, with the reason
};

/// Appends "COUNT TEXT" if the count is above 0.
void add_count(std::vector<std::string>& notes, std::size_t count, const char* text);

}  // namespace orrery::live

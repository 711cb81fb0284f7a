// The switches and jobs of a Slurm as a network and a job log of the simulator. Used by `orrery
// import cluster`. Pure functions, thread-safe. Seconds.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "live/queue/queue_import.hpp"
#include "live/slurm/answers.hpp"

namespace orrery::live {

/// Returns the answer of `scontrol show topology` as a topology.conf: switches above the first
/// level without the nodes that they repeat. Empty if the answer has no switch or block.
std::string topology_conf(const std::string& answer);

/// Returns the placed and waiting jobs of these partitions (empty: all) that use GPUs. The duration
/// of a job is its time limit; a job without a limit is left out.
QueuedJobs queued_jobs(std::vector<SlurmJob> all, const std::set<std::string>& partitions);

}  // namespace orrery::live

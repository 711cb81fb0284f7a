// The nodes, racks and gangs of a Kubernetes cluster as a cluster and a job log of the simulator.
// Used by `orrery import cluster kubernetes`. Pure functions, thread-safe. Seconds.
#pragma once

#include <vector>

#include "live/kubernetes/reading.hpp"
#include "live/queue/queue_import.hpp"

namespace orrery::live {

/// Returns the facts that the nodes state about the cluster (see node_facts() of live/queue). If
/// labels name two racks or more, the nodes of a rack are those below one switch. The racks of the
/// cluster have the size of the largest, which `assumed` says where others are smaller. Throws
/// bad_input if no node has GPUs.
///
/// For example, nodes in racks of 4 and 3 become 7 nodes below switches of 4.
ClusterFacts rack_facts(const std::vector<KubeNode>& nodes);

/// Returns the placed and waiting gangs. The duration of a gang is its limit; gangs without a
/// limit, incomplete gangs and gangs that are over or leaving are left out, and so are pods that
/// Orrery does not manage. The pool of a job is its queue, its user the namespace.
QueuedJobs queued_gangs(std::vector<KubeGang> gangs);

}  // namespace orrery::live

// Clusters that `orrery import` writes from the files of other tools and from a running cluster.
// One thread.
#pragma once

#include <string>

#include "cli/shared/output_file.hpp"
#include "topologies/topology.pb.h"
#include "traces/clusters/cluster_facts.hpp"

namespace orrery::cli {

/// Writes the cluster of the facts to `file`, prints its assumptions and omissions, and one line
/// with its size; `out` is the name of the file. Returns the cluster. Throws bad_input if the facts
/// are no cluster (cluster_of()).
Topology write_cluster(const ClusterChoices& choices, ClusterFacts& facts, const std::string& out,
                       OutputFile& file);

}  // namespace orrery::cli

// Builds a Cluster from its YAML description. Errors carry the place of the offending value when
// the message came from a file.
#pragma once

#include <string>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "topologies/cluster.hpp"
#include "topologies/topology.pb.h"

namespace orrery {

/// Resolves preset and catalogue names in place (after this, node, fabric and price are whole);
/// throws bad_input with the nearest name.
void resolve(Topology& topology, const SourceMap& places);

/// Builds from a resolved description; checks what spans several fields (a unit has enough
/// spines, rails divide GPUs, ...).
Cluster build_cluster(const Topology& resolved, const SourceMap& places);

/// Names in the shipped catalogues (topologies/catalog/*.yaml, embedded at build time).
std::vector<std::string> gpu_names();
std::vector<std::string> preset_names();

}  // namespace orrery

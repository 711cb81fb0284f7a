// Builds a Cluster from its YAML description. Errors carry the place of the offending value when
// the message came from a file.
#pragma once

#include <string>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "topologies/cluster.hpp"
#include "topologies/topology.pb.h"

namespace orrery {

/// Resolves preset and catalogue names in place and fills in defaults (after this, node, fabric,
/// price and gpus[0..] are whole: the GPU model that the node names stands in `gpus`). `path` is
/// where the topology stands in the file: "" or "cluster". To be called before any
/// fill_defaults() on the enclosing message, which would hide what was written beside the preset.
/// Throws bad_input with the nearest name.
void resolve(Topology& topology, const SourceMap& places, const std::string& path = {});

/// Builds from a resolved description; checks what spans several fields (a unit has enough
/// spines, rails divide GPUs, ...).
Cluster build_cluster(const Topology& resolved, const SourceMap& places,
                      const std::string& path = {});

/// Names in the shipped catalogues (topologies/catalog/*.yaml, embedded at build time).
std::vector<std::string> gpu_names();
std::vector<std::string> preset_names();

}  // namespace orrery

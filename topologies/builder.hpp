// Construction of a Cluster from its YAML description. Errors carry the place of the offending
// value if the message came from a file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/names.hpp"
#include "core/schema/yaml_loader.hpp"
#include "topologies/cluster.hpp"
#include "topologies/topology.pb.h"

namespace orrery {

/// Fabrics as files name them (FabricSpec.kind). A multi-plane fabric becomes a cluster of
/// FabricKind::fat_tree with several planes.
enum class FabricForm : std::uint8_t { fat_tree, multi_plane, flat, ring, torus, dragonfly };
constexpr std::array<std::string_view, 6> names_of(FabricForm) {
  return {"fat-tree", "multi-plane", "flat", "ring", "torus", "dragonfly"};
}

/// Resolves preset and catalogue names in place and sets defaults (afterwards node, fabric, price
/// and gpus[0..] are complete: the node's GPU model is in `gpus`). `path` is the place of the
/// topology in the file: "" or "cluster". Call before any fill_defaults() on the enclosing message,
/// which would hide the values that override the preset. Throws bad_input, with the nearest name
/// for an unknown preset or GPU, also for a missing node or fabric, and for keys of the fabric that
/// are missing or belong to another kind.
void resolve(Topology& topology, const SourceMap& places, const std::string& path = {});

/// Returns the cluster of a resolved description; checks conditions between fields (a unit has
/// enough spines, rails divide GPUs, ...). Throws bad_input at the violated condition, also for a
/// description that is not resolved or needs more than 10^8 links. Does not check the ranges of
/// single fields, as the loader does: fabric.nodes_per_unit must not be 0.
Cluster build_cluster(const Topology& resolved, const SourceMap& places,
                      const std::string& path = {});

/// Returns the kernel profile whose efficiencies apply to a GPU: its `family`, else that of its
/// generation, for example B200 for a GPU of NVIDIA that computes in fp4.
std::string kernel_family(const GpuSpec& spec);

/// Returns the names of GPUs in the shipped catalogues (topologies/catalog/*.yaml, embedded at
/// build time).
std::vector<std::string> gpu_names();
/// Returns the names of the shipped presets.
std::vector<std::string> preset_names();

}  // namespace orrery

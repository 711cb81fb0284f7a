// Writers of clusters in the formats of other tools. Called by `orrery export cluster`.
// Thread-safe: no state between calls. Rates in bytes per second.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/names.hpp"
#include "topologies/topology.pb.h"

namespace orrery {

/// Formats in which clusters are written.
enum class WrittenFormat : std::uint8_t { nccl, slurm_conf, slurm_yaml, simgrid };
constexpr std::array<std::string_view, 4> names_of(WrittenFormat) {
  return {"nccl", "topology.conf", "topology.yaml", "simgrid"};
}

/// Cluster in another tool's format.
struct WrittenCluster {
  std::string text;
  /// Keys whose values differ when `orrery import cluster-file` reads the text again with the GPU's
  /// name, for example "nodes: 64, read again as 1".
  std::vector<std::string> changed;
};

/// Returns a resolved cluster in a format. Throws bad_input if the format has no such GPU or
/// fabric.
WrittenCluster write_cluster_file(const Topology& resolved, WrittenFormat format);

/// Returns the texts of single formats; throw as write_cluster_file().
std::string write_nccl_topology(const Topology& resolved);
std::string write_slurm_conf(const Topology& resolved);
std::string write_slurm_yaml(const Topology& resolved);
std::string write_simgrid_platform(const Topology& resolved);

}  // namespace orrery

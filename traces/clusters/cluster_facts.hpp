// Facts about a cluster that files of other tools state, and the cluster that follows from them. A
// file about a node (NCCL, nvidia-smi) and a file about the network (Slurm, ibnetdiscover) complete
// each other. Thread-safe: no state between calls. Rates in bytes per second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/topology.pb.h"

namespace orrery {

/// Facts of one or several files; 0 and empty: unknown.
struct ClusterFacts {
  std::string gpu;  ///< name in the catalogue
  std::uint32_t gpus_per_node = 0, nics_per_node = 0;
  double nic_bandwidth = 0;
  double node_bandwidth = 0;  ///< all NICs of a node together, where no file states `nic_bandwidth`
  std::uint32_t nvlinks = 0;  ///< links of one GPU
  bool knows_nvlinks = false;  ///< true: `nvlinks` is known, also if it is 0
  std::uint32_t nodes = 0;
  std::uint32_t nodes_per_leaf = 0;    ///< most nodes below one switch
  std::uint32_t spines = 0;            ///< switches of the second tier for each rail
  double spine_link_bandwidth = 0;     ///< all links of a leaf to one spine together
  std::uint32_t nodes_per_domain = 0;  ///< most nodes of one NVLink domain
  /// Fabric that a file states as a whole, with the rates of all rails together; no kind: none
  /// does.
  FabricSpec fabric;
  std::vector<std::string> read;     ///< one line for each file: its format and contents
  std::vector<std::string> assumed;  ///< facts that the files do not state
  std::vector<std::string> ignored;  ///< facts of the files that the cluster leaves out
};

/// Values that replace those of the files; 0 and empty: as in the files.
struct ClusterChoices {
  std::string gpu;
  std::uint32_t nodes = 0;
};

/// Adds the facts of another file: its known values replace unknown ones. Throws bad_input if both
/// know a value and differ.
void merge_facts(ClusterFacts& into, const ClusterFacts& more);

/// Returns the NVLink connections of one GPU of the catalogue, by the data sheets; 0 if they are
/// unknown. For example, 18 for H100.
std::uint32_t usual_nvlinks(const std::string& gpu);

/// Returns the cluster of the facts, not resolved, and appends to `facts.assumed` all values that
/// they lack: those of the GPU's preset, one node, a network without a bottleneck. Throws bad_input
/// for an unknown GPU (with the nearest name), for facts without a GPU and for NICs below 0.8
/// Gbit/s.
Topology cluster_of(ClusterFacts& facts, const ClusterChoices& choices);

}  // namespace orrery

// Readers of the cluster files of other tools, one function for each format. All throw bad_input
// with the place for a broken file. Thread-safe: no state between calls.
#pragma once

#include "core/schema/config_keys.hpp"
#include "traces/clusters/cluster_facts.hpp"

namespace orrery {

/// Returns the facts of a file of NCCL_TOPO_DUMP_FILE: GPUs and their NVLink connections, NICs and
/// their rate, of one node or of all nodes of an NVLink domain.
ClusterFacts read_nccl_topology(const ConfigText& source);
/// Returns the facts of the XML of hwloc's lstopo: GPUs by their PCI devices, network adapters.
ClusterFacts read_hwloc_topology(const ConfigText& source);
/// Returns the facts of the output of `nvidia-smi topo -m`: GPUs, NVLink connections, NICs.
ClusterFacts read_smi_topology(const ConfigText& source);
/// Returns the facts of Slurm's topology.conf: nodes, leaf switches or blocks.
ClusterFacts read_slurm_conf(const ConfigText& source);
/// Returns the facts of the first topology of Slurm's topology.yaml.
ClusterFacts read_slurm_yaml(const ConfigText& source);
/// Returns the facts of a platform of SimGrid: hosts as nodes, the rate of their links, the
/// topology of a <cluster>, and GPUs where the platform was written by write_simgrid_platform().
ClusterFacts read_simgrid_platform(const ConfigText& source);
/// Returns the facts of the output of ibnetdiscover: nodes, NICs and their rate, switches of the
/// first two tiers.
ClusterFacts read_ibnetdiscover(const ConfigText& source);

}  // namespace orrery

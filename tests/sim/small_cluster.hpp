// Small clusters with round rates, for tests of collectives: 450 GB/s and 1 us inside a node,
// 50 GB/s and 2 us from NIC to NIC, one NIC per GPU.
#pragma once

#include "sim/estimates/collectives/collectives.hpp"
#include "topologies/cluster.hpp"

namespace orrery::testing {

/// Sizes of a small test cluster.
struct SmallCluster {
  std::uint32_t nodes = 4, gpus_per_node = 4;
  bool flat = false;
  bool nvls = false;
  bool in_network = false;
  std::uint32_t nodes_per_unit = 0;  ///< 0: one unit
  std::uint32_t nodes_per_domain = 1;
};

inline Cluster small_cluster(const SmallCluster& what) {
  GpuModel gpu{.name = "H100", .memory = {80e9}, .memory_bandwidth = {1e12}, .fp32 = {1e13},
               .tf32 = {}, .bf16 = {1e14}, .fp8 = {}, .fp4 = {}, .nvlink = {450e9},
               .pcie = {64e9}, .idle_power = {50}, .max_power = {700}, .nvls = what.nvls};
  const std::uint32_t unit = what.nodes_per_unit == 0 ? what.nodes : what.nodes_per_unit;
  return Cluster(gpu,
                 {.nodes = what.nodes, .gpus_per_node = what.gpus_per_node,
                  .nics_per_node = what.gpus_per_node, .nodes_per_unit = unit, .spines = unit,
                  .nic_bandwidth = {50e9}, .spine_link_bandwidth = {50e9},
                  .nvlink_latency = {1e-6}, .nic_latency = {2e-6}, .hop_latency = {5e-7},
                  .host_power = {2000}, .nodes_per_domain = what.nodes_per_domain,
                  .fabric = what.flat ? FabricKind::flat : FabricKind::fat_tree,
                  .in_network_reduction = what.in_network},
                 {});
}

/// Returns links with the rates of their data sheet.
inline estimates::CostProfile ideal() {
  estimates::CostProfile profile;
  profile.nvlink = profile.network = 1;
  return profile;
}

inline estimates::GpuGroup gpus(std::uint32_t count, std::uint32_t stride = 1) {
  estimates::GpuGroup group;
  for (std::uint32_t i = 0; i < count; ++i) group.push_back({i * stride});
  return group;
}

}  // namespace orrery::testing

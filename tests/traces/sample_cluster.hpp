// A small cluster with round rates, for tests: nodes of 8 GPUs and 8 NICs under one switch a rail.
#pragma once

#include <cstdint>

#include "topologies/cluster.hpp"

namespace orrery::testing {

/// NVLink 100 GB/s, NICs 10 GB/s, PCIe 20 GB/s, memory 1 TB/s, 100 TFLOP/s; no latencies unless
/// given.
inline Cluster sample_cluster(std::uint32_t nodes, double latency_s = 0) {
  GpuModel gpu;
  gpu.name = "sample";
  gpu.memory = {80e9};
  gpu.memory_bandwidth = {1e12};
  gpu.fp32 = gpu.tf32 = gpu.bf16 = gpu.fp8 = gpu.fp4 = {1e14};
  gpu.nvlink = {100e9};
  gpu.pcie = {20e9};
  return Cluster(gpu,
                 {.nodes = nodes, .gpus_per_node = 8, .nics_per_node = 8, .nodes_per_unit = nodes,
                  .spines = 1, .nic_bandwidth = {10e9}, .spine_link_bandwidth = {10e9},
                  .nvlink_latency = {latency_s}, .nic_latency = {latency_s},
                  .hop_latency = {latency_s}, .host_power = {0}},
                 {});
}

}  // namespace orrery::testing

// Max-min shares of the file system that all nodes share (cluster.storage): each rank of a job has
// at most one flow that writes a checkpoint and one that reads training data, over the link of its
// node and the file system. Bytes per second.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/ids.hpp"
#include "topologies/cluster.hpp"
#include "topologies/topology.pb.h"
#include "traces/workload/step_graph.hpp"

namespace orrery::sim {

/// Nodes with equal numbers of ranks of a job.
struct StorageNodes {
  std::uint32_t nodes = 0;
  std::uint32_t writers = 0;  ///< ranks of one node, each with its shard of a checkpoint
  std::uint32_t readers = 0;  ///< ranks of one node in the first stage, which read training data
};

/// Returns the nodes of a job by their numbers of ranks. `placement`: GPU of each rank of `graph`.
std::vector<StorageNodes> storage_nodes(const Cluster& cluster, const StepGraph& graph,
                                        const std::vector<GpuId>& placement);

/// Wanted rate of a flow that takes all it can get.
inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// Rates of flows of one rank, in bytes per second.
struct StorageRates {
  double write = 0;
  double read = 0;
};

/// Returns the rates of the slowest writer and reader on `nodes`, if all flows share `storage`
/// max-min fairly and none exceeds `wanted`; 0 for a kind without ranks or with wanted rate 0.
/// `share`: available share of the file system's bandwidth, 0 to 1. For example, a file system of
/// 10 GB/s for one node with one writer that wants all and one reader that wants 2 GB/s gives 8 and
/// 2 GB/s.
StorageRates storage_rates(const SharedStorage& storage, double share,
                           const std::vector<StorageNodes>& nodes, StorageRates wanted);

}  // namespace orrery::sim

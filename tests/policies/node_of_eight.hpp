// Cluster of one node of eight GPUs with figures of power, for tests of power budgets.
#pragma once

#include <utility>

#include "topologies/cluster.hpp"

namespace orrery {

/// Returns the node: each GPU draws `idle_w` to 700 W, the host 2,800 W.
inline Cluster node_of_eight(double idle_w = 75) {
  GpuModel gpu{};
  gpu.name = "H100";
  gpu.idle_power = {idle_w};
  gpu.max_power = {700};
  Cluster::Shape shape{};
  shape.nodes = 1;
  shape.gpus_per_node = 8;
  shape.nics_per_node = 1;
  shape.nodes_per_unit = 1;
  shape.spines = 1;
  shape.host_power = {2800};
  return Cluster(std::move(gpu), shape, Price{});
}

}  // namespace orrery

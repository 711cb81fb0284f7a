// Failure domains: a node, and its rack. Also the holders of state copies, chosen so that a failure
// domain does not hold both copies. Pure functions; thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "topologies/cluster.hpp"

namespace orrery {

/// Rack and node of a GPU.
struct FailureDomain {
  std::uint32_t rack = 0, node = 0;
  friend auto operator<=>(const FailureDomain&, const FailureDomain&) = default;
};

/// Returns the failure domain of a GPU. A rack is an NVLink domain of several nodes if the cluster
/// has such domains; else the nodes below one set of leaf switches; outside of fat-trees all nodes.
FailureDomain failure_domain(const Cluster& cluster, GpuId gpu);

/// Returns, by member, the holder of the copy of its part; each member holds one copy. The holder
/// is in another rack if no rack has more than half of the members; else in another node if no node
/// has; else in another node for as many members as possible. Within these limits holders are as
/// far away as possible, so that the loss of neighbours loses no state; with an even number of
/// members, pairs hold each other's copies. A single member holds its own copy; the result is empty
/// without members. For example, 4 members on 2 nodes give {2, 3, 0, 1}.
std::vector<std::uint32_t> copy_keepers(std::span<const FailureDomain> members);

}  // namespace orrery

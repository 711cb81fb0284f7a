// What fails together: a node, and the rack that it stands in. And who keeps the copy of whose
// state, so that what fails together does not take both. Pure functions; safe from any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "topologies/cluster.hpp"

namespace orrery {

struct FailureDomain {
  std::uint32_t rack = 0, node = 0;
  friend auto operator<=>(const FailureDomain&, const FailureDomain&) = default;
};

/// A rack is an NVLink domain of several nodes where there are such; else the nodes below one set
/// of leaf switches.
FailureDomain failure_domain(const Cluster& cluster, GpuId gpu);

/// By member: who keeps a copy of its part, each of them one. In another rack if no rack holds more
/// than half of the members; else in another node if no node does; else in another node for as many
/// as can be. Within that as far away as can be, so that neighbours lost together leave everything;
/// with an even number of members they keep each other's.
std::vector<std::uint32_t> copy_keepers(std::span<const FailureDomain> members);

}  // namespace orrery

#include "topologies/failure_domain.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace orrery {
namespace {

/// Returns the number of members in the largest domain.
template <class Name>
std::uint32_t largest(std::span<const FailureDomain> members, const Name& name) {
  std::map<std::uint32_t, std::uint32_t> sizes;
  std::uint32_t most = 0;
  for (const FailureDomain& member : members) most = std::max(most, ++sizes[name(member)]);
  return most;
}

}  // namespace

FailureDomain failure_domain(const Cluster& cluster, GpuId gpu) {
  const NodeId node = cluster.node_of(gpu);
  const bool wide = cluster.shape().nodes_per_domain > 1;
  return {.rack = wide ? cluster.domain_of(gpu) : cluster.unit_of(node), .node = node.value};
}

/// In the order of the domains, each member keeps the copy of the member half the list before it: a
/// domain with at most half of the members lies between them. Larger domains are skipped as a
/// whole.
std::vector<std::uint32_t> copy_keepers(std::span<const FailureDomain> members) {
  const auto count = static_cast<std::uint32_t>(members.size());
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return members[a] < members[b]; });
  const std::uint32_t in_node =
      largest(members, [](const FailureDomain& member) { return member.node; });
  const std::uint32_t away = in_node < count ? std::max(in_node, count / 2) : count / 2;
  std::vector<std::uint32_t> keepers(count);
  for (std::uint32_t place = 0; place < count; ++place) {
    keepers[order[place]] = order[(place + away) % count];
  }
  return keepers;
}

}  // namespace orrery

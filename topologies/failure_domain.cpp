#include "topologies/failure_domain.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace orrery {
namespace {

/// How many members the largest domain has.
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

/// In the order of their domains each keeps the copy of the one that stands half the members before
/// it: whatever holds at most half of them lies between. What holds more is passed over whole.
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

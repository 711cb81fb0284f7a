#include "sim/estimates/collectives/collective_groups.hpp"

#include <algorithm>

#include "core/tables/hash_index.hpp"

namespace orrery::estimates {

std::vector<GpuGroup> by_domain(const Cluster& cluster, const GpuGroup& members) {
  std::vector<GpuGroup> domains;
  HashIndex known;
  for (const GpuId gpu : members) {
    const std::uint32_t domain = cluster.domain_of(gpu);  // its own hash
    std::uint32_t place = known.find(domain, [](std::uint32_t) { return true; });
    if (place == HashIndex::kNone) {
      place = static_cast<std::uint32_t>(domains.size());
      known.add(domain, place);
      domains.emplace_back();
    }
    domains[place].push_back(gpu);
  }
  return domains;
}

CollectiveGroups::CollectiveGroups(const Cluster& cluster, const std::vector<GpuGroup>& groups)
    : cluster_(cluster), groups_(groups), size_(static_cast<std::uint32_t>(groups.front().size())) {
  for (const GpuGroup& group : groups) domains_.push_back(by_domain(cluster, group));
  const std::size_t first = domains_.front().front().size();
  const bool alike = std::all_of(domains_.begin(), domains_.end(), [&](const auto& of_group) {
    return std::all_of(of_group.begin(), of_group.end(),
                       [&](const GpuGroup& domain) { return domain.size() == first; });
  });
  if (!alike) return;
  each_ = static_cast<std::uint32_t>(first);
  spans_ = size_ / each_;
}

std::uint32_t CollectiveGroups::largest_domain() const {
  std::size_t most = 0;
  for (const auto& domains : domains_) {
    for (const GpuGroup& domain : domains) most = std::max(most, domain.size());
  }
  return static_cast<std::uint32_t>(most);
}

GpuGroup CollectiveGroups::rail(const std::vector<GpuGroup>& domains, std::uint32_t k) {
  GpuGroup members;
  for (const GpuGroup& domain : domains) members.push_back(domain[k]);
  return members;
}

}  // namespace orrery::estimates

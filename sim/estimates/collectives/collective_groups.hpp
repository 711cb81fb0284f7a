// Groups of ranks that take part in a collective, and how each group falls into NVLink domains.
// Used by the algorithms of sim/estimates/collectives/collective_scheduler. Immutable, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

/// Returns the members grouped by NVLink domain, in the order of each domain's first member.
std::vector<GpuGroup> by_domain(const Cluster& cluster, const GpuGroup& members);

/// Groups of equal size that execute the same collective at once, divided into NVLink domains.
/// Keeps references to the cluster and the groups. Immutable, thread-safe.
///
/// For example, a group of 16 GPUs on two nodes of 8 has two domains of 8 members; its rail k
/// consists of the k-th GPU of both nodes.
class CollectiveGroups {
 public:
  /// Divides the groups. Requires at least one group, no empty group, and groups of equal size (not
  /// checked). Cluster and groups must outlive this object.
  CollectiveGroups(const Cluster& cluster, const std::vector<GpuGroup>& groups);

  /// Returns the cluster of the constructor.
  const Cluster& cluster() const { return cluster_; }
  /// Returns the groups of the constructor.
  const std::vector<GpuGroup>& groups() const { return groups_; }
  /// Returns the number of members of each group.
  std::uint32_t size() const { return size_; }
  /// Returns the members of each group by NVLink domain: [group][domain][member].
  const std::vector<std::vector<GpuGroup>>& domains() const { return domains_; }
  /// Returns the member count of the fullest domain of any group.
  std::uint32_t largest_domain() const;

  /// Returns true if all domains of all groups hold equally many members.
  bool is_even() const { return each_ > 0; }
  /// Returns the number of members of each domain if is_even(), else 0.
  std::uint32_t members_per_domain() const { return each_; }
  /// Returns the number of domains of each group if is_even(), else 1.
  std::uint32_t spans() const { return spans_; }
  /// Returns the k-th member of each domain of a group; each domain has more than `k` members.
  static GpuGroup rail(const std::vector<GpuGroup>& domains, std::uint32_t k);

 private:
  const Cluster& cluster_;
  const std::vector<GpuGroup>& groups_;
  const std::uint32_t size_;
  std::vector<std::vector<GpuGroup>> domains_;
  std::uint32_t each_ = 0, spans_ = 1;
};

}  // namespace orrery::estimates

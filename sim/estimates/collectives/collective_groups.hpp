// Who takes part in a collective: groups of equal size, and how each falls into NVLink domains.
// What the algorithms of sim/estimates/collectives/collective_scheduler lay out their phases over.
// Immutable, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

/// Members by NVLink domain, in the order of each domain's first member.
std::vector<GpuGroup> by_domain(const Cluster& cluster, const GpuGroup& members);

class CollectiveGroups {
 public:
  /// `groups` checked: none empty, all of one size. Both outlive this.
  CollectiveGroups(const Cluster& cluster, const std::vector<GpuGroup>& groups);

  const Cluster& cluster() const { return cluster_; }
  const std::vector<GpuGroup>& groups() const { return groups_; }
  std::uint32_t size() const { return size_; }  ///< of each
  /// By group, NVLink domain.
  const std::vector<std::vector<GpuGroup>>& domains() const { return domains_; }
  std::uint32_t largest_domain() const;

  bool even() const { return each_ > 0; }         ///< all domains hold as many members
  std::uint32_t each() const { return each_; }    ///< members of a domain then, else 0
  std::uint32_t spans() const { return spans_; }  ///< domains of each group then, else 1
  /// The k-th members of all domains of a group.
  static GpuGroup rail(const std::vector<GpuGroup>& domains, std::uint32_t k);

 private:
  const Cluster& cluster_;
  const std::vector<GpuGroup>& groups_;
  const std::uint32_t size_;
  std::vector<std::vector<GpuGroup>> domains_;
  std::uint32_t each_ = 0, spans_ = 1;
};

}  // namespace orrery::estimates

// Counter of equal flows per link. Used by sim/estimates/collectives/phase_builder while a phase is
// laid out; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tables/huge_pages.hpp"
#include "sim/estimates/collectives/collectives.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

/// Counter of the equal flows that cross each link of a cluster at once. Keeps a reference to the
/// cluster, which must outlive this object. Memory is linear in the cluster's links; one counter is
/// reused for many phases. Not thread-safe.
///
/// For example, all pairs among 4 GPUs of one node give 3 flows on each GPU's NVLink in either
/// direction.
class FlowCounter {
 public:
  /// Starts with no flows on any link.
  explicit FlowCounter(const Cluster& cluster);

  /// Adds `flows` to every link of the route between two GPUs; nothing if both are the same GPU.
  void add_flows(GpuId from, GpuId to, std::uint32_t flows = 1);
  /// Adds `flows` to one link. Modular arithmetic lets a caller subtract with a negated count.
  void add_link(LinkId link, std::uint32_t flows);
  /// Adds one flow from each member to each other member, which must be distinct, in time linear in
  /// members and links rather than in pairs. Rings of nodes, hashed routes (ECMP) and fat trees
  /// whose NVLink domains straddle scalable units take the slow way over all pairs.
  void add_all_pairs(const GpuGroup& members);

  /// Returns the counted loads, ascending by link, and resets the counter. A link whose count was
  /// subtracted to 0 is listed with 0 flows.
  std::vector<LinkLoad> drain_loads();
  /// Returns the same loads, in an unspecified order, and resets the counter.
  std::vector<LinkLoad> drain_unordered();

 private:
  /// Adds one flow per pair along the pair's route.
  void add_each_pair(const GpuGroup& members);

  const Cluster& cluster_;
  HugeVector<std::uint32_t> flows_;     ///< flows by link
  std::vector<std::uint32_t> touched_;  ///< links with flows, unordered
  std::vector<LinkId> route_;           ///< scratch buffer of add_flows()
};

}  // namespace orrery::estimates

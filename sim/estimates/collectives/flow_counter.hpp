// Counts how many equal flows cross each link of a cluster at once. Used by
// sim/estimates/collectives/phase_builder while a phase is laid out; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

class FlowCounter {
 public:
  explicit FlowCounter(const Cluster& cluster);

  /// `flows` along the route from one GPU to another.
  void add(GpuId from, GpuId to, std::uint32_t flows = 1);
  void add_link(LinkId link, std::uint32_t flows);
  /// One flow from each member to each other one, in time linear in members and links rather than
  /// in pairs (but for rings of nodes).
  void add_all_pairs(const GpuGroup& members);

  /// What was counted, ascending by link; counts from zero again.
  std::vector<LinkLoad> take();

 private:
  void add_each_pair(const GpuGroup& members);

  const Cluster& cluster_;
  std::vector<std::uint32_t> flows_;    ///< by link
  std::vector<std::uint32_t> touched_;  ///< links with flows
  std::vector<LinkId> route_;           ///< scratch
};

}  // namespace orrery::estimates

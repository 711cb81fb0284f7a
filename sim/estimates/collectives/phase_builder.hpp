// The phases of a collective as they are laid out: flows are counted on links, then a phase is
// closed with how much of the buffer a flow carries and what its rounds take. Used by the
// algorithms of sim/estimates/collectives/collective_scheduler; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/collectives/flow_counter.hpp"
#include "sim/estimates/collectives/ring_edges.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

class PhaseBuilder {
 public:
  using Way = MessageWay;

  /// The cluster outlives this.
  explicit PhaseBuilder(const Cluster& cluster) : cluster_(cluster), flows_(cluster) {}

  FlowCounter& flows() { return flows_; }  ///< of the phase that is being laid out
  /// Means of an edge.
  Way add_ring(const GpuGroup& ring, bool closed, std::uint32_t times = 1);
  /// What was counted is a phase: each flow carries `share` of the buffer, in so many rounds.
  void close(double share, double rounds, Way all);
  std::vector<CollectivePhase> take() { return std::move(phases_); }

  Way way(GpuId from, GpuId to) const { return message_way(cluster_, from, to); }
  /// The longest between two members.
  Way worst_way(const GpuGroup& group) const;

 private:
  const Cluster& cluster_;
  FlowCounter flows_;
  std::vector<CollectivePhase> phases_;
};

inline void keep_longer(MessageWay& longest, const MessageWay& other, double times = 1) {
  longest.far = std::max(longest.far, other.far * times);
  longest.latency = std::max(longest.latency, other.latency * times);
}

}  // namespace orrery::estimates

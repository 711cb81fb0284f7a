// Builder of phases. Used by the algorithms of sim/estimates/collectives/collective_scheduler; one
// thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/collectives/flow_counter.hpp"
#include "sim/estimates/collectives/ring_edges.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

/// Builder of the phases of a collective: the algorithm counts flows on links, then closes the
/// phase with the share of the buffer that a flow carries and the cost of its rounds. Owns the flow
/// counter. Not thread-safe.
class PhaseBuilder {
 public:
  using Way = MessageWay;

  /// Starts without phases. The cluster must outlive this object.
  explicit PhaseBuilder(const Cluster& cluster) : cluster_(cluster), flows_(cluster) {}

  /// Returns the flow counter of the phase that is being laid out.
  FlowCounter& flows() { return flows_; }
  /// Adds `times` flows to each edge of a ring of at least one member, or of a chain of at least
  /// two members if not `closed`. Returns the mean path cost of an edge.
  Way add_ring(const GpuGroup& ring, bool closed, std::uint32_t times = 1);
  /// Ends a phase with the flows counted so far, and resets the counter: each flow carries `share`
  /// of the buffer in `rounds` rounds; `all` is the path cost of all rounds together.
  void close(double share, double rounds, Way all);
  /// Returns the closed phases and leaves none behind.
  std::vector<CollectivePhase> drain_phases() { return std::move(phases_); }

  /// Returns the path cost of one message.
  Way way(GpuId from, GpuId to) const { return message_way(cluster_, from, to); }
  /// Returns, for each part of the path cost, the largest value from the first or the last member
  /// of a non-empty group to any member. On rings of nodes two other members may be farther apart.
  Way worst_way(const GpuGroup& group) const;

 private:
  const Cluster& cluster_;
  FlowCounter flows_;
  std::vector<CollectivePhase> phases_;
};

/// Raises each part of `longest` to the matching part of `other` x `times` if that product is
/// larger.
inline void keep_longer(MessageWay& longest, const MessageWay& other, double times = 1) {
  longest.far = std::max(longest.far, other.far * times);
  longest.latency = std::max(longest.latency, other.latency * times);
}

}  // namespace orrery::estimates

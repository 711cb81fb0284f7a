// Path costs of messages between GPUs, and multisets of ring edges. Used where collectives are laid
// out and where plans are changed. One thread.
#pragma once

#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

/// Cost of a message path: rounds that leave an NVLink domain, and latency in seconds.
struct MessageWay {
  double far = 0, latency = 0;
  friend auto operator<=>(const MessageWay&, const MessageWay&) = default;
};
/// Returns the path cost of one message; `far` is 1 if the GPUs are in different NVLink domains.
inline MessageWay message_way(const Cluster& cluster, GpuId from, GpuId to) {
  const bool far = cluster.domain_of(from) != cluster.domain_of(to);
  return {far ? 1.0 : 0.0, cluster.latency(from, to).value};
}

/// Multiset of the edges of a ring. A ring has few different path costs, so that counts per path
/// cost suffice; the mean does not depend on the order of the edges. Not thread-safe.
///
/// For example, a ring over two NVLink domains of 8 GPUs has 14 edges inside domains and 2 edges
/// between them; the mean of `far` is 2 / 16.
class RingEdges {
 public:
  /// Adds `count` edges of one path cost; a negative count removes edges.
  void add(MessageWay edge, std::int64_t count = 1);
  /// Returns the number of edges.
  std::int64_t count() const { return count_; }
  /// Returns the mean path cost of an edge. Call only if the ring has edges.
  MessageWay mean() const;

 private:
  std::vector<std::pair<MessageWay, std::int64_t>> kinds_;  ///< (path cost, count), ascending
  std::int64_t count_ = 0;
};

/// Returns how often all of a buffer except one part passes around a closed ring: 2 for an
/// all-reduce, else 1.
double ring_passes(CollectiveKind kind);

}  // namespace orrery::estimates

// What the messages of a collective take from GPU to GPU, and the edges of a ring, which are of few
// kinds. Used where collectives are laid out and where plans are changed. One thread.
#pragma once

#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

/// Rounds of one way, and what they take.
struct MessageWay {
  double far = 0, latency = 0;
  friend auto operator<=>(const MessageWay&, const MessageWay&) = default;
};
inline MessageWay message_way(const Cluster& cluster, GpuId from, GpuId to) {
  const bool far = cluster.domain_of(from) != cluster.domain_of(to);
  return {far ? 1.0 : 0.0, cluster.latency(from, to).value};
}

/// The edges of a ring, which are of few kinds. What they come to does not depend on their order.
class RingEdges {
 public:
  void add(MessageWay edge, std::int64_t count = 1);
  std::int64_t count() const { return count_; }
  MessageWay mean() const;

 private:
  std::vector<std::pair<MessageWay, std::int64_t>> kinds_;  ///< ascending
  std::int64_t count_ = 0;
};

/// How often all of a buffer but one part goes round a closed ring.
double ring_passes(CollectiveKind kind);

}  // namespace orrery::estimates

// The algorithms themselves: lays out the phases of one kind of collective in groups of equal size.
// Behind collective_schedule() of sim/estimates/collectives/collectives.hpp, which documents sizes
// and units; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/collectives/flow_counter.hpp"
#include "topologies/cluster.hpp"

namespace orrery {

/// Rounds of one way, and what they take.
struct MessageWay {
  double far = 0, latency = 0;
  friend auto operator<=>(const MessageWay&, const MessageWay&) = default;
};
MessageWay message_way(const Cluster& cluster, GpuId from, GpuId to);

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

class CollectiveScheduler {
 public:
  /// `groups` checked: none empty, all of one size.
  CollectiveScheduler(const Cluster& cluster, CollectiveKind kind,
                      const std::vector<GpuGroup>& groups);

  /// With the fallback that serves every group where `algorithm` cannot: ring, or direct.
  CollectiveSchedule make(CollectiveAlgorithm algorithm);

 private:
  /// Each is true if it laid out the collective.
  bool ring();
  bool tree();
  bool halving_doubling();
  bool direct();
  bool hierarchical();
  bool nvls();

  using Way = MessageWay;
  void hierarchical_broadcast();
  void overlapped_rings(double passes);
  void inner_rings(double passes, std::uint32_t times, Way& all);
  void rail_rings(double passes, bool closed, std::uint32_t times, Way& all);
  /// Means of an edge.
  Way add_ring(const GpuGroup& ring, bool closed, std::uint32_t times = 1);
  /// Both trees over `heads`; the longest way to a root.
  Way add_trees(const GpuGroup& heads, bool up);
  Way add_chained_trees(const std::vector<GpuGroup>& domains, std::uint32_t head);
  Way add_switch_tree(const GpuGroup& rail);
  void exchange(std::uint32_t distance, std::uint32_t ranks, double share);
  void fold_extras(bool in);
  void add_phase(double share, double rounds, Way all);
  Way worst_way(const GpuGroup& group) const;
  Way way(GpuId from, GpuId to) const { return message_way(cluster_, from, to); }
  static void keep_longer(Way& longest, const Way& other, double times = 1);
  /// The k-th members of all domains of a group.
  static GpuGroup rail(const std::vector<GpuGroup>& domains, std::uint32_t k);

  bool reduces() const { return kind_ == CollectiveKind::all_reduce; }
  bool even() const { return each_ > 0; }

  const Cluster& cluster_;
  const CollectiveKind kind_;
  const std::vector<GpuGroup>& groups_;
  const std::uint32_t n_;
  std::vector<std::vector<GpuGroup>> domains_;  ///< by group, NVLink domain
  std::uint32_t each_ = 0;   ///< members per domain if all hold as many, else 0
  std::uint32_t spans_ = 1;  ///< domains of each group, if even
  FlowCounter counter_;
  CollectiveSchedule out_;
};

/// Members by NVLink domain, in the order of each domain's first member.
std::vector<GpuGroup> by_domain(const Cluster& cluster, const GpuGroup& members);

/// Parent of `rank` in one of the two trees over `n`, of which each rank is an inner node of at
/// most one (Sanders, Speck, Traeff 2009; numbered as NCCL does); -1: the root.
std::int64_t tree_parent(std::uint32_t n, std::uint32_t rank, bool second);

}  // namespace orrery

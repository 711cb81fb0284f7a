// Double binary trees (Sanders, Speck, Traeff 2009). One of the algorithms of
// sim/estimates/collectives/collective_scheduler; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/phase_builder.hpp"

namespace orrery::estimates {

/// Returns the parent of `rank` < `n` in one of the two trees over `n` ranks, numbered as in NCCL;
/// -1 for the root. For example, in the first tree over 4 ranks the parents of ranks 0 to 3 are -1,
/// 2, 0, 2.
std::int64_t tree_parent(std::uint32_t n, std::uint32_t rank, bool second);

/// Schedule of double binary trees: each rank is an inner node of at most one of two trees, and
/// each tree carries half of the buffer (Sanders, Speck, Traeff 2009).
class TreeSchedule {
 public:
  /// Adds phases to `phases`. Both arguments must outlive this object.
  TreeSchedule(const CollectiveGroups& who, PhaseBuilder& phases) : who_(who), phases_(phases) {}

  /// Adds the phase of an all-reduce or a broadcast and returns true. Call for groups of at least
  /// two ranks (not checked). Returns false, and adds nothing, for other kinds, and for a broadcast
  /// in groups with several equal NVLink domains of several members.
  bool lay_out(CollectiveKind kind);
  /// Adds the flows of both trees over `heads`, with `up` in both directions. Returns the longest
  /// path cost from a rank to a root.
  MessageWay add_trees(const GpuGroup& heads, bool up);

 private:
  /// Adds chains inside domains and both trees over the members at index `head`. Returns the
  /// longest path cost.
  MessageWay add_chained_trees(const std::vector<GpuGroup>& domains, std::uint32_t head);

  const CollectiveGroups& who_;
  PhaseBuilder& phases_;
};

}  // namespace orrery::estimates

// Double binary trees: each rank is an inner node of at most one of two trees, each of which
// carries half of the buffer (Sanders, Speck, Traeff 2009). One of the algorithms of
// sim/estimates/collectives/collective_scheduler; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/phase_builder.hpp"

namespace orrery::estimates {

/// Parent of `rank` in one of the two trees over `n`, numbered as NCCL does; -1: the root.
std::int64_t tree_parent(std::uint32_t n, std::uint32_t rank, bool second);

class TreeSchedule {
 public:
  /// Both outlive this.
  TreeSchedule(const CollectiveGroups& who, PhaseBuilder& phases) : who_(who), phases_(phases) {}

  /// False: `kind` has no trees among these groups.
  bool lay_out(CollectiveKind kind);
  /// Both trees over `heads`; the longest way to a root.
  MessageWay add_trees(const GpuGroup& heads, bool up);

 private:
  MessageWay add_chained_trees(const std::vector<GpuGroup>& domains, std::uint32_t head);

  const CollectiveGroups& who_;
  PhaseBuilder& phases_;
};

}  // namespace orrery::estimates

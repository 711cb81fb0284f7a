// Recursive halving and doubling (Rabenseifner 2004). One of the algorithms of
// sim/estimates/collectives/collective_scheduler; one thread.
#pragma once

#include <cstdint>

#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/phase_builder.hpp"

namespace orrery::estimates {

/// Schedule of recursive halving and doubling (Rabenseifner 2004): ranks exchange half of the
/// buffer with the next rank, then smaller parts with ranks farther away. Ranks beyond a power of
/// two fold their buffer into a neighbour first, for all-reduce only.
///
/// For example, an all-reduce among 8 ranks has six phases: shares 1/2, 1/4, 1/8 at distances 1, 2,
/// 4, then 1/8, 1/4, 1/2 back.
class HalvingDoubling {
 public:
  /// Adds phases to `phases`. Both arguments must outlive this object.
  HalvingDoubling(const CollectiveGroups& who, PhaseBuilder& phases) : who_(who), phases_(phases) {}

  /// Adds the phases of the collective and returns true. Returns false, and adds nothing, for
  /// all-to-all, broadcast and send-receive, and for reduce-scatter and all-gather among a number
  /// of ranks that is no power of two. A group of one rank has no phases.
  bool lay_out(CollectiveKind kind);

 private:
  /// Adds the phase in which each rank exchanges `share` of the buffer with the rank at `distance`.
  void exchange(std::uint32_t distance, std::uint32_t ranks, double share);
  /// Adds the phase that folds ranks beyond a power of two into neighbours (`in`) or unfolds them.
  void fold_extras(bool in);

  const CollectiveGroups& who_;
  PhaseBuilder& phases_;
};

}  // namespace orrery::estimates

// Recursive halving and doubling (Rabenseifner 2004): halves of the buffer with the next rank
// first, then smaller parts farther away. One of the algorithms of
// sim/estimates/collectives/collective_scheduler; one thread.
#pragma once

#include <cstdint>

#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/phase_builder.hpp"

namespace orrery::estimates {

class HalvingDoubling {
 public:
  /// Both outlive this.
  HalvingDoubling(const CollectiveGroups& who, PhaseBuilder& phases) : who_(who), phases_(phases) {}

  /// False: `kind` is not done so among these groups.
  bool lay_out(CollectiveKind kind);

 private:
  void exchange(std::uint32_t distance, std::uint32_t ranks, double share);
  void fold_extras(bool in);

  const CollectiveGroups& who_;
  PhaseBuilder& phases_;
};

}  // namespace orrery::estimates

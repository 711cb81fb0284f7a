// Two levels: NVLink inside domains, rails between them, chunk by chunk at once. One of the
// algorithms of sim/estimates/collectives/collective_scheduler; one thread.
#pragma once

#include <cstdint>

#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/phase_builder.hpp"

namespace orrery::estimates {

class HierarchicalSchedule {
 public:
  /// Both outlive this.
  HierarchicalSchedule(const CollectiveGroups& who, PhaseBuilder& phases)
      : who_(who), phases_(phases) {}

  /// False: these groups have no two levels, or `kind` does not use them.
  bool lay_out(CollectiveKind kind);

 private:
  void broadcast();
  void all_to_all();
  void overlapped_rings(double passes);
  void inner_rings(double passes, std::uint32_t times, MessageWay& all);
  void rail_rings(double passes, bool closed, std::uint32_t times, MessageWay& all);

  const CollectiveGroups& who_;
  PhaseBuilder& phases_;
};

}  // namespace orrery::estimates

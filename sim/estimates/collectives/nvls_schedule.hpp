// Sums in the switches: those of NVLink inside a domain; between domains the fabric's, or double
// binary trees. One of the algorithms of sim/estimates/collectives/collective_scheduler; one
// thread.
#pragma once

#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/phase_builder.hpp"

namespace orrery::estimates {

class NvlsSchedule {
 public:
  /// Both outlive this.
  NvlsSchedule(const CollectiveGroups& who, PhaseBuilder& phases) : who_(who), phases_(phases) {}

  /// False: the GPUs' switches do not sum, or `kind` does not use that among these groups.
  bool lay_out(CollectiveKind kind);

 private:
  MessageWay add_switch_tree(const GpuGroup& rail);

  const CollectiveGroups& who_;
  PhaseBuilder& phases_;
};

}  // namespace orrery::estimates

// Topology-aware placement of gangs: a job that fits into one node goes there (best fit, as
// consolidated); a larger one takes whole nodes of one scalable unit, of those that have enough
// idle nodes the one with the fewest, so that its traffic stays below the spine and large gaps stay
// for large jobs. One that no unit can hold takes the units with most idle nodes, so that it spans
// as few as possible and shares their uplinks with as few others as possible. Nodes are whole, so
// rank r of every node is on the same rail. All or nothing.
#pragma once

#include "policies/placement/placer.hpp"

namespace orrery {

class TopologyPlacer : public Placer {
 public:
  std::string_view name() const override { return "topology"; }
  std::optional<GpuRuns> place(const JobSpec& job, FreeGpus& free) const override;
};

}  // namespace orrery

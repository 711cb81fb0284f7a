// Topology-aware placement of gangs. A job that fits into one node goes there (best fit, as
// `consolidated`). A larger job takes whole nodes of one scalable unit: of the units with enough
// idle nodes the one with the fewest, so that its traffic stays below the spine and large gaps
// remain for large jobs. A job larger than any unit takes the units with the most idle nodes, so
// that it spans as few units as possible and shares their uplinks with as few jobs as possible.
// Nodes are whole, so rank r of every node is on the same rail. All or nothing.
#pragma once

#include "policies/placement/placer.hpp"

namespace orrery {

/// Placer that keeps a job below one spine where possible. For example, a job of 4 nodes goes to a
/// unit with 5 idle nodes rather than to one with 9.
class TopologyPlacer : public Placer {
 public:
  std::string_view name() const override { return "topology"; }
  std::optional<GpuRuns> place_gpus(std::uint32_t gpus, const ParallelLayout& layout,
                                    FreeGpus& free) const override;
};

}  // namespace orrery

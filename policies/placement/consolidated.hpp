// Placement on as few nodes as possible. A job of at most one node's size goes into one node, best
// fit: the node with the fewest sufficient free GPUs, ties to the lowest number. A larger job takes
// whole idle nodes in ascending number and best-fits its remainder into another node. All or
// nothing; nothing is reserved.
#pragma once

#include "policies/placement/placer.hpp"

namespace orrery {

/// Placer that uses as few nodes as possible. For example, with 3, 8 and 8 free GPUs a job of 2
/// goes to the first node, and a job of 10 takes the second node and 2 GPUs of the first.
class ConsolidatedPlacer : public Placer {
 public:
  std::string_view name() const override { return "consolidated"; }
  std::optional<GpuRuns> place_gpus(std::uint32_t gpus, const ParallelLayout& layout,
                                    FreeGpus& free) const override;
};

}  // namespace orrery

// Placement on as few nodes as possible. A job of at most one node's size goes into one node, best
// fit: the one with the fewest free GPUs that still suffices, ties to the lowest number. A larger
// one takes whole idle nodes in ascending number and best-fits its remainder into another node.
// All or nothing; nothing is reserved.
#pragma once

#include "policies/placement/placer.hpp"

namespace orrery {

class ConsolidatedPlacer : public Placer {
 public:
  std::string_view name() const override { return "consolidated"; }
  std::optional<GpuRuns> place(const JobSpec& job, FreeGpus& free) const override;
};

}  // namespace orrery

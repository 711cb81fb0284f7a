// Placement by number alone: a job fits if it needs no more than all free GPUs together, and gets
// the GPUs with the lowest numbers.
#pragma once

#include "policies/placement/placer.hpp"

namespace orrery {

/// Placer that ignores nodes.
class CountPlacer : public Placer {
 public:
  std::string_view name() const override { return "count"; }
  std::optional<GpuRuns> place_gpus(std::uint32_t gpus, const ParallelLayout& layout,
                                    FreeGpus& free) const override;
};

}  // namespace orrery

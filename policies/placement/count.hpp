// Placement by number alone: a job fits if it needs no more than all free GPUs together. It gets
// the lowest-numbered ones.
#pragma once

#include "policies/placement/placer.hpp"

namespace orrery {

class CountPlacer : public Placer {
 public:
  std::string_view name() const override { return "count"; }
  std::optional<GpuRuns> place(const JobSpec& job, FreeGpus& free) const override;
};

}  // namespace orrery

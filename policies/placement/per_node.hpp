// Placement by the request of a batch system: a number of nodes with the same number of GPUs on
// each, as Slurm's `-N 2 --gpus-per-node=3` or the pods of a gang. Best fit: the nodes with the
// fewest sufficient free GPUs, ties to the lowest number. In a fat-tree, several nodes are nodes of
// one scalable unit where possible: of the units with enough of them the one with the fewest.
// Otherwise the job spans as few units as possible. All or nothing; nothing is reserved.
#pragma once

#include "policies/placement/placer.hpp"

namespace orrery {

/// Placer that gives a job layout.pipeline x layout.context nodes with the same number of GPUs on
/// each. Groups of layout.context nodes are nodes of one scalable unit; the job waits until units
/// have room for all of its groups. A job of a log, whose layout names no nodes, gets all of its
/// GPUs on one node. For example, a job of 6 GPUs with pipeline 2 gets 3 GPUs on each of two nodes,
/// with context 2 on each of two nodes of one unit.
class PerNodePlacer : public Placer {
 public:
  std::string_view name() const override { return "per-node"; }
  std::optional<GpuRuns> place_gpus(std::uint32_t gpus, const ParallelLayout& layout,
                                    FreeGpus& free) const override;
};

}  // namespace orrery

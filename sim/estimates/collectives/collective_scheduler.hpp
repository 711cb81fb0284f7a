// Lays out the phases of one kind of collective in groups of equal size, by the algorithm that is
// asked for or the one that serves every group. Behind collective_schedule() of
// sim/estimates/collectives/collectives.hpp, which documents sizes and units; one thread.
#pragma once

#include <vector>

#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/collectives/phase_builder.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

class CollectiveScheduler {
 public:
  /// `groups` checked: none empty, all of one size.
  CollectiveScheduler(const Cluster& cluster, CollectiveKind kind,
                      const std::vector<GpuGroup>& groups);

  /// With the fallback that serves every group where `algorithm` cannot: ring, or direct.
  CollectiveSchedule make(CollectiveAlgorithm algorithm);

 private:
  // True if it laid out the collective.
  bool lay_out(CollectiveAlgorithm algorithm);
  bool ring();
  bool direct();

  const CollectiveKind kind_;
  const CollectiveGroups who_;
  PhaseBuilder phases_;
};

}  // namespace orrery::estimates

// Builder behind collective_schedule() of sim/estimates/collectives/collectives.hpp, which
// documents sizes and units. One thread.
#pragma once

#include <vector>

#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/collectives/phase_builder.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

/// Builder of the phases of one kind of collective in groups of equal size. Uses the requested
/// algorithm, or a fallback that serves every group. One object builds one schedule.
class CollectiveScheduler {
 public:
  /// Requires at least one group, no empty group, and groups of equal size (not checked). Cluster
  /// and groups must outlive this object.
  CollectiveScheduler(const Cluster& cluster, CollectiveKind kind,
                      const std::vector<GpuGroup>& groups);

  /// Returns the schedule by `algorithm`, or by ring if `algorithm` cannot serve these groups or is
  /// `automatic`, or by direct if ring cannot either. `CollectiveSchedule::algorithm` names the
  /// algorithm that was used. For groups of one rank returns the requested algorithm without
  /// phases. Call once.
  CollectiveSchedule make_schedule(CollectiveAlgorithm algorithm);

 private:
  /// Lays out the collective by `algorithm`. Returns false, and adds nothing, if the algorithm does
  /// not serve these groups.
  bool lay_out(CollectiveAlgorithm algorithm);
  bool ring();
  bool direct();

  const CollectiveKind kind_;
  const CollectiveGroups who_;
  PhaseBuilder phases_;
};

}  // namespace orrery::estimates

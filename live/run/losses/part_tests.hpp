// Tests of the parts of a cluster that return from a fault.
#pragma once

#include <cstdint>
#include <vector>

#include "live/run/losses/fault_injector.hpp"
#include "live/run/processes/placement.hpp"
#include "live/run/processes/rank_control.hpp"
#include "policies/seam/world.hpp"

namespace orrery::live {

/// Tests of returned GPUs and nodes: a part whose fault has a `test` stays lost until a process on
/// each of its GPUs has started, connected and sent a status. A GPU that the job uses is not
/// tested: the rank that replaces its lost rank has to join in any case. Without state: a part is
/// under test while the world calls it lost and its fault is over, so that a new controller
/// continues a test. Used by the step driver; single-threaded. Call the methods only once the job
/// is submitted. Instants are times of the policy clock.
class PartTests {
 public:
  /// All references must outlive this object.
  PartTests(const World& world, const FaultInjector& faults, const Placement& placement,
            const RankControl& control)
      : world_(world), faults_(faults), placement_(placement), control_(control) {}

  /// Returns the seats on which a test needs a process during `step` at `now`, ascending; empty if
  /// no part is under test.
  std::vector<std::uint32_t> seats(Step step, Nanos now) const;
  /// Returns the seats of the processes that wait without a rank: the first `warm` spares
  /// (Placement::spare_seats()), and those of tests during `step` at `now`.
  std::vector<std::uint32_t> waiting_seats(std::uint32_t warm, Step step, Nanos now) const;
  /// Returns FaultInjector::part_changes() without the returns of parts whose test is not passed.
  std::vector<PartChanged> part_changes(Step step, Nanos now) const;

 private:
  /// Returns true if the change is the return of a part that is tested.
  bool is_tested(const PartChanged& change) const;
  /// Returns the seats of the part that the job does not use.
  std::vector<std::uint32_t> seats_of(Part part) const;

  const World& world_;
  const FaultInjector& faults_;
  const Placement& placement_;
  const RankControl& control_;
};

}  // namespace orrery::live

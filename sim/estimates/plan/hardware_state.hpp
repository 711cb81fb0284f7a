// Deviations of a job's hardware from its data sheet during one step. A plain value, used by plans
// and steps. Factors; the world decides when they change (sim/training/fault_plan).
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "core/ids.hpp"

namespace orrery::estimates {

/// Deviations of the hardware during a step, as a plain value: a missing entry means nominal. Equal
/// states lead to equal iterations, so that the state can serve as a cache key. For example, slow =
/// {3: 2.0} means that rank 3 takes twice as long.
struct HardwareState {
  std::map<std::uint32_t, double> slow;       ///< slowdown factor of compute time, by rank
  /// Divisor x by LinkId: the link has 1/x of its bandwidth.
  std::map<std::uint32_t, double> link_slow;
  std::set<std::uint32_t> down;               ///< LinkIds of links that are down
  /// Share of the compute clock that all GPUs keep under a limit of power: products take 1/clock as
  /// long, kernels that the memory limits as long as before.
  double clock = 1;

  /// Returns the slowdown factor of a rank; 1 if nominal.
  double slow_of(RankId rank) const {
    const auto found = slow.find(rank.value);
    return found == slow.end() ? 1 : found->second;
  }
  /// Returns the divisor of a link's bandwidth; 1 if nominal.
  double link_slow_of(LinkId link) const {
    const auto found = link_slow.find(link.value);
    return found == link_slow.end() ? 1 : found->second;
  }
  friend auto operator<=>(const HardwareState&, const HardwareState&) = default;
};

}  // namespace orrery::estimates

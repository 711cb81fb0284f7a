// Hardware of a step on an engine. Owned by the execution of a step; one thread. Seconds from the
// step's beginning.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "sim/estimates/step/step_programs.hpp"

namespace orrery::estimates {

/// Hardware of a step as resources of an engine: speeds of the workers' GPUs, bandwidths and
/// outages of links, and their changes during the step. Not thread-safe.
///
/// Each GPU of a worker has a host in full detail. Otherwise a worker has one host, as fast as the
/// slowest of its GPUs, unless a change during the step makes another GPU the slowest: then each
/// GPU that is not always at least as fast as another one has a host. For example, GPUs with the
/// factors 3 and 2 that become 1 and 2 have two hosts: a block that has begun before the change
/// ends on the second GPU, at factor 2 from its beginning.
class StepHardware {
 public:
  /// Begins with the state of the request. Throws bad_input if the plan needs more links than the
  /// engine has, an internal Error if it needs more hosts. Both arguments must outlive this object.
  StepHardware(const IterationRequest& request, const StepPrograms& programs);

  /// Sets the speeds of all workers and the rates of all slots to the state at the beginning of the
  /// step, and marks their links as up, or as down if the state says so.
  void begin();
  /// Applies a change from now on, after begin(). The slowdown factors in `change` replace those of
  /// their ranks, and the rates those of their links; all others stay. A link in `down` goes down
  /// and stays down for the rest of the step, whatever its later rates. Ignores links that are not
  /// pinned, except that broken_link() knows them as down. `at` and `fatal` are left to the caller.
  void apply_change(const TimedChange& change);

  /// Returns the engine's number of the first host of a worker; the others follow it.
  std::uint32_t first_host(std::uint32_t worker) const { return first_hosts_[worker]; }
  /// Returns the number of hosts of a worker, at least 1.
  std::uint32_t host_count(std::uint32_t worker) const {
    return first_hosts_[worker + 1] - first_hosts_[worker];
  }
  /// Returns a link that is down and crossed by a flow of this phase, the last in the order of the
  /// flows; nothing if none is down.
  std::optional<LinkId> broken_link(const CommPhase& phase) const;

 private:
  /// Returns the present state.
  const HardwareState& state() const { return changed_ ? *changed_ : request_.state; }
  /// Returns the ranks of a worker, of the first replica of its class.
  std::vector<RankId> ranks_of(std::uint32_t worker) const;
  /// Fills `ranks_` and `first_hosts_`.
  void assign_hosts();
  /// Returns the slowdown factor of a host of a worker.
  double slow_of(std::uint32_t worker, std::uint32_t host) const;
  /// Sets the speeds of all hosts by the current state.
  void set_speeds();
  /// Marks a link as down; ignored by the engine if no flow of the plan crosses the link.
  void take_down(LinkId link);

  const IterationRequest& request_;
  const StepPrograms& programs_;
  std::optional<HardwareState> changed_;    ///< state after the changes during the step
  std::vector<RankId> ranks_;               ///< rank of each host
  std::vector<std::uint32_t> first_hosts_;  ///< first host of each worker, and the number of hosts
};

}  // namespace orrery::estimates

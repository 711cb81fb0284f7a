// Hardware of a step on an engine. Owned by the execution of a step; one thread. Seconds from the
// step's beginning.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "sim/estimates/step/step_programs.hpp"

namespace orrery::estimates {

/// Hardware of a step as resources of an engine: speeds of the workers' GPUs, bandwidths and
/// outages of links, and their changes during the step. Not thread-safe.
class StepHardware {
 public:
  /// Copies the state of the request. Throws bad_input if the plan needs more links than the engine
  /// has, an internal Error if it needs more hosts. Both arguments must outlive this object.
  StepHardware(const IterationRequest& request, const StepPrograms& programs);

  /// Sets the speeds of all workers and the rates of all slots to the state at the beginning of the
  /// step, and marks their links as up, or as down if the state says so.
  void begin();
  /// Applies a change from now on, after begin(). The slowdown factors in `change` replace those of
  /// their ranks, and the rates those of their links; all others stay. A link in `down` goes down
  /// and stays down for the rest of the step, whatever its later rates. Ignores links that are not
  /// pinned, except that broken_link() knows them as down. `at` and `fatal` are left to the caller.
  void apply_change(const TimedChange& change);

  /// Returns the engine's host number of a simulated GPU.
  std::uint32_t host(std::uint32_t worker, std::uint32_t member) const {
    return worker * request_.plan.member_hosts + member;
  }
  /// Returns a link that is down and crossed by a flow of this phase, the last in the order of the
  /// flows; nothing if none is down.
  std::optional<LinkId> broken_link(const CommPhase& phase) const;

 private:
  /// Returns the slowdown factor of a simulated GPU.
  double slow_of(std::uint32_t worker, std::uint32_t member) const;
  /// Sets the speeds of all hosts by the current state.
  void set_speeds();
  /// Marks a link as down; ignored by the engine if no flow of the plan crosses the link.
  void take_down(LinkId link);

  const IterationRequest& request_;
  const StepPrograms& programs_;
  HardwareState state_;
};

}  // namespace orrery::estimates

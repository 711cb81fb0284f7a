// The hardware under a step, on an engine: how fast each worker's GPUs are, which links are down
// and how fast the others, and how that changes while the step goes on. Kept by the execution of a
// step; one thread. Seconds from the step's beginning.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "sim/estimates/step/step_programs.hpp"

namespace orrery::estimates {

class StepHardware {
 public:
  /// Throws bad_input if the plan needs more links than the engine has. All outlive this.
  StepHardware(const IterationRequest& request, const StepPrograms& programs);

  /// As it is when the step begins.
  void begin();
  void change(const TimedChange& change);

  /// The engine's number of a GPU that is simulated.
  std::uint32_t host(std::uint32_t worker, std::uint32_t member) const {
    return worker * request_.plan.member_hosts + member;
  }
  /// A link that is down among those that a flow of this phase crosses; nothing: none is.
  std::optional<LinkId> broken(const CommPhase& phase) const;

 private:
  double slow_of(std::uint32_t worker, std::uint32_t member) const;
  void set_speeds();
  void take_down(LinkId link);

  const IterationRequest& request_;
  const StepPrograms& programs_;
  HardwareState state_;
};

}  // namespace orrery::estimates

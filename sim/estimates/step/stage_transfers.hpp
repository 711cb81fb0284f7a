// What the workers of a step send from stage to stage: a transfer begins with its send, whether or
// not the receiver waits, and the receive ends once both are there. Kept by the execution of a
// step; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/step/flights.hpp"
#include "sim/estimates/step/step_programs.hpp"
#include "sim/estimates/step/step_record.hpp"

namespace orrery::estimates {

class StageTransfers {
 public:
  /// All outlive this.
  StageTransfers(const Plan& plan, const StepPrograms& programs, Flights& flights,
                 StepRecord& record, OpListener& listener);

  void send(std::uint32_t worker, std::uint32_t op);
  void receive(std::uint32_t worker, std::uint32_t op);

 private:
  void delivered(std::uint32_t worker, std::uint32_t op);

  const Plan& plan_;
  const StepPrograms& programs_;
  Flights& flights_;
  StepRecord& record_;
  OpListener& listener_;
  /// By worker and op: a receive whose transfer has come, or that waits.
  std::vector<std::vector<bool>> here_;
};

}  // namespace orrery::estimates

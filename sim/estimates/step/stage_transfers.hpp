// Transfers between the stages of a step. Owned by the execution of a step; one thread.
#pragma once

#include <cstdint>

#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/step/flights.hpp"
#include "sim/estimates/step/step_programs.hpp"
#include "sim/estimates/step/step_record.hpp"

namespace orrery::estimates {

/// Transfers between stages: a transfer begins with its send, whether or not the receiver waits;
/// the receive depends on the send, too, and ends with its last dependency. Not thread-safe.
class StageTransfers {
 public:
  /// All arguments must outlive this object.
  StageTransfers(const Plan& plan, StepPrograms& programs, Flights& flights, StepRecord& record,
                 OpListener& listener);

  /// Starts the transfer of a send. At its end, which may be within this call, calls on_op_end() of
  /// the listener for the send, and, unless the step is over then, for the matching receive if its
  /// worker waits; throws an internal Error without such a receive. Adds the interval to the
  /// record. Call once per operation.
  void start_send(std::uint32_t worker, std::uint32_t op);
  /// Returns the memory of the transfer that follows a block of a worker; null without transfers.
  const void* memory_of(std::uint32_t worker, Phase phase) const;

 private:
  /// Ends a send, and the matching receive if its worker waits.
  void end_send(std::uint32_t worker, std::uint32_t op);

  const Plan& plan_;
  StepPrograms& programs_;
  Flights& flights_;
  StepRecord& record_;
  OpListener& listener_;
};

}  // namespace orrery::estimates

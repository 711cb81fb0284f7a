// Transfers between the stages of a step. Owned by the execution of a step; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/step/flights.hpp"
#include "sim/estimates/step/step_programs.hpp"
#include "sim/estimates/step/step_record.hpp"

namespace orrery::estimates {

/// Transfers between stages: a transfer begins with its send, whether or not the receiver waits;
/// the receive ends when both the data and the receiver have arrived. Not thread-safe.
class StageTransfers {
 public:
  /// Starts without transfers. All arguments must outlive this object.
  StageTransfers(const Plan& plan, const StepPrograms& programs, Flights& flights,
                 StepRecord& record, OpListener& listener);

  /// Returns to the state of the constructor. Call only after the end of a step that was not cut
  /// short.
  void reset_transfers();
  /// Starts the transfer of a send. At its end, which may be within this call, calls on_op_end() of
  /// the listener for the send, and, unless the step is over then, for the matching receive if its
  /// worker waits; throws an internal Error without such a receive. Adds the interval to the
  /// record. Call once per operation.
  void start_send(std::uint32_t worker, std::uint32_t op);
  /// Records that a worker has reached a receive; ends the receive, within this call, if its data
  /// has arrived. Call once per operation.
  void record_receive(std::uint32_t worker, std::uint32_t op);

 private:
  /// Ends a send, and the matching receive if its worker waits.
  void end_send(std::uint32_t worker, std::uint32_t op);

  const Plan& plan_;
  const StepPrograms& programs_;
  Flights& flights_;
  StepRecord& record_;
  OpListener& listener_;
  /// True for a receive if its data has arrived or its worker waits, by worker and operation.
  std::vector<std::vector<bool>> here_;
};

}  // namespace orrery::estimates

// Queues of the collectives between a step's workers. Owned by the execution of a step; one thread.
// Seconds from the step's beginning.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/step/collective_order.hpp"
#include "sim/estimates/step/flights.hpp"
#include "sim/estimates/step/step_programs.hpp"
#include "sim/estimates/step/step_record.hpp"

namespace orrery::estimates {

/// Queues of collectives: each group executes one collective at a time, as on one stream, in the
/// order of the programs. A collective begins when all participants have reached it. Not
/// thread-safe.
class CollectiveQueues {
 public:
  /// Builds one queue per group of the plan. All arguments must outlive this object. Throws
  /// std::out_of_range if the longest program of a group lacks a collective of another class.
  CollectiveQueues(const Plan& plan, const StepPrograms& programs, Flights& flights,
                   StepRecord& record, OpListener& listener);

  /// Returns to the state of the constructor. Call only after the end of a step that was not cut
  /// short.
  void reset_queues();
  /// Records that a worker has reached one of its collectives, in all groups that the worker
  /// shares, and starts collectives that are complete. At the end of a collective the listener gets
  /// on_op_end() for every participant, for an operation of several groups after the last of them;
  /// none follows once the step is over. Call once per operation. Throws an internal Error if the
  /// plan lacks the collective.
  void record_arrival(std::uint32_t worker, std::uint32_t op);

 private:
  /// Worker and operation.
  using WorkerOp = std::pair<std::uint32_t, std::uint32_t>;
  /// Collective with the workers that must take part and those that arrived.
  struct Collective {
    const Op* op = nullptr;
    std::uint32_t expected = 0;
    std::vector<WorkerOp> arrived;
  };
  /// Queue of one group of the plan.
  struct Group {
    CollectiveOrder order;
    std::vector<Collective> queue;  ///< collectives in their order
    std::size_t next = 0;
    bool running = false;
    double began = 0;  ///< begin of the newest collective
  };
  /// Returns the queue of a group.
  Group group_of(const GroupPlan& plan) const;
  /// Starts the next collective of a group if all participants have arrived.
  void next(std::uint32_t group);
  /// Ends the current collective of a group and starts the next one.
  void end_collective(std::uint32_t group);

  const Plan& plan_;
  const StepPrograms& programs_;
  Flights& flights_;
  StepRecord& record_;
  OpListener& listener_;
  std::vector<Group> groups_;                 ///< queue of each group of the plan
  std::map<WorkerOp, std::uint32_t> shared_;  ///< remaining groups of operations in several groups
};

}  // namespace orrery::estimates

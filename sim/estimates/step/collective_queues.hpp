// The collectives between a step's workers: in each group one at a time, as on one stream, in the
// order of the programs; one begins when all that take part have come to it. Kept by the execution
// of a step; one thread. Seconds from the step's beginning.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/step/flights.hpp"
#include "sim/estimates/step/step_programs.hpp"
#include "sim/estimates/step/step_record.hpp"

namespace orrery::estimates {

class CollectiveQueues {
 public:
  /// All outlive this.
  CollectiveQueues(const Plan& plan, const StepPrograms& programs, Flights& flights,
                   StepRecord& record, OpListener& listener);

  /// A worker has come to one of its collectives, in all groups that have a part in it.
  void arrive(std::uint32_t worker, std::uint32_t op);

 private:
  using WorkerOp = std::pair<std::uint32_t, std::uint32_t>;
  struct Collective {
    const Op* op = nullptr;
    std::uint32_t expected = 0;
    std::vector<WorkerOp> arrived;
  };
  struct Group {
    std::vector<Collective> queue;  ///< in program order
    /// By class (as in the plan's group): place in the queue of each of its program's collectives;
    /// empty: the same place.
    std::vector<std::vector<std::uint32_t>> places;
    std::size_t next = 0;
    bool running = false;
  };
  Group group_of(const GroupPlan& plan) const;
  void next(std::uint32_t group);
  void ended(std::uint32_t group, double from);

  const Plan& plan_;
  const StepPrograms& programs_;
  Flights& flights_;
  StepRecord& record_;
  OpListener& listener_;
  std::vector<Group> groups_;                 ///< as in the plan
  std::map<WorkerOp, std::uint32_t> shared_;  ///< of those in several: groups still to end
};

}  // namespace orrery::estimates

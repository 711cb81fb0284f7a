// Queues whose order changes without events: by service, by shares of tenants, or by lateness.
// Every pass looks at all jobs, running and waiting, and selects those that shall run. Running jobs
// that are not selected are preempted first, then the selected waiting jobs are placed in the order
// of selection. A job that cannot be placed stays in the queue. Preemption costs nothing in the
// policy; the backend adds its cost. Base of gittins, finish-time-fairness, drf and max-min. One
// thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/queues/tracked_queue.hpp"

namespace orrery {

/// Base of queue policies with preemption that rank all jobs in every pass. For example, with 4
/// GPUs, a running job of 4 is preempted by a waiting job of 2 that ranks before it.
class RankedPolicy : public TrackedQueue {
 protected:
  /// Returns the jobs that shall run, together at most `gpus`: waiting jobs in order, running jobs
  /// anywhere. `jobs`: the running jobs in the order of their starts, then the waiting jobs in the
  /// order of the queue.
  virtual Jobs select_jobs(const Jobs& jobs, std::uint64_t gpus, Nanos now) = 0;
  /// Returns the reason of a start in the decision.
  virtual const char* reason() const = 0;

  /// Returns true if running jobs may be preempted; otherwise no selection is made while no GPU is
  /// free.
  virtual bool can_make_room() const { return true; }

  /// Selects jobs by falling `key`, then by submission, then running jobs before waiting ones, then
  /// by id, skipping jobs that no longer fit into `gpus`. Returns the selected waiting jobs in this
  /// order, running jobs anywhere. Reorders `jobs`.
  static Jobs highest_first(std::vector<Ranked>& jobs, std::uint64_t gpus);

 private:
  void dispatch_jobs(const Observation& seen, DecisionList& decisions) override;
  void start_jobs(const Observation& seen, const Jobs& selected, DecisionList& decisions);

  std::uint64_t passes_ = 0;
};

}  // namespace orrery

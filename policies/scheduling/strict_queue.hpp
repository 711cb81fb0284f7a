// What job queues with strict head-of-line blocking share: in a pass the jobs are started in queue
// order until the first that cannot be placed. Subclasses own the order. Running jobs keep their
// GPUs. One thread, as every policy.
#pragma once

#include <optional>

#include "policies/scheduling/queue_policy.hpp"

namespace orrery {

class StrictQueue : public QueuePolicy {
 protected:
  virtual const char* reason() const = 0;
  virtual void queue_up(const JobSpec& job) = 0;  ///< at the place its order gives it
  virtual void drop(const JobSpec& job) = 0;      ///< wherever it stands, if it does
  /// The first job of the queue.
  virtual std::optional<JobId> head(const JobTable& jobs) = 0;

 private:
  void enter(const JobInfo& job, Nanos) final { queue_up(job.spec); }
  void run(const JobInfo& job, Nanos) final { drop(job.spec); }
  void leave(const JobInfo& job) final { drop(job.spec); }
  void dispatch(const Observation& seen, DecisionList& decisions) final;
};

}  // namespace orrery

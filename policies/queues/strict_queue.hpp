// Common part of job queues with strict head-of-line blocking: a pass starts jobs in queue order
// until the first that cannot be placed. Subclasses own the order. Running jobs keep their GPUs.
// One thread.
#pragma once

#include <optional>

#include "policies/queues/queue_policy.hpp"

namespace orrery {

/// Base of queue policies whose first job blocks the rest.
class StrictQueue : public QueuePolicy {
 public:
  /// Returns the needs of queue policies and `gpu_kinds`.
  Needs needs() const override;

 protected:
  /// Returns the reason of a start in the decision.
  virtual const char* reason() const = 0;
  virtual void queue_up(const JobSpec& job) = 0;  ///< inserts a job at its place in the order
  virtual void drop_job(const JobSpec& job) = 0;      ///< removes a job, if it is queued
  /// Returns the first job of the queue; nothing if the queue is empty.
  virtual std::optional<JobId> head(const JobTable& jobs) = 0;

 private:
  void enter_queue(const JobInfo& job, Nanos) final { queue_up(job.spec); }
  void run(const JobInfo& job, Nanos) final { drop_job(job.spec); }
  void remove_job(const JobInfo& job) final { drop_job(job.spec); }
  void dispatch_jobs(const Observation& seen, DecisionList& decisions) final;
};

}  // namespace orrery

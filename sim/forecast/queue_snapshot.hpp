// State of a queue of jobs at one instant, as a policy observes it, in a form from which futures
// are simulated (sim/forecast/forked_queue). Built from an observation of any backend: a replayed
// log, processes of this machine, a real Slurm. Immutable, thread-safe; nanoseconds of the policy
// clock.
#pragma once

#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery::sim {

/// Returns true if a job of the table has GPUs, or waits.
bool has_running_job(const JobTable& jobs);
bool has_waiting_job(const JobTable& jobs);

/// Throws bad_input for a job of a log with several sizes or with kinds of GPUs, whose futures
/// would need the speed on each of them.
void refuse_variable(const JobSpec& job);

/// Copy of the cluster's state and of all jobs that wait or run. Jobs have new ids 0, 1, ... in
/// order of submission. A job with a pending assignment counts as running. For example, if jobs 7
/// and 9 are left, they are jobs 0 and 1 of the snapshot.
class QueueSnapshot {
 public:
  /// Job of the snapshot.
  struct Job {
    JobId known_as;  ///< id in the observation
    bool is_running = false;
    Nanos served = 0;  ///< time with GPUs so far
  };

  /// Copies the state. The cluster of the observation must outlive the snapshot. Throws as
  /// refuse_variable().
  explicit QueueSnapshot(const Observation& seen);

  /// Returns a copy in which the node is lost: the jobs that run on it wait, without service.
  QueueSnapshot without_node(NodeId node) const;

  /// Returns the instant of the observation.
  Nanos now() const { return now_; }
  /// Returns the world at that instant.
  const World& world() const { return world_; }
  /// Returns the jobs, indexed by their ids in world().
  const std::vector<Job>& jobs() const { return jobs_; }
  /// Returns the facts that are known about the job `index`.
  const JobSpec& spec(std::size_t index) const {
    return world_.jobs()[JobId{static_cast<std::uint32_t>(index)}].spec;
  }

 private:
  void submit_jobs(const Observation& seen);
  void repeat_service(const Observation& seen);
  void start_jobs(const Observation& seen);

  Nanos now_;
  World world_;
  std::vector<Job> jobs_;
};

}  // namespace orrery::sim

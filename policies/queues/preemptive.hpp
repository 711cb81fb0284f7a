// Queues in which running jobs make room for jobs with a higher rank. A pass orders all jobs,
// running and waiting, and selects each job whose GPUs still fit into the cluster's number; others
// are skipped. Running jobs that are not selected are preempted first, then selected waiting jobs
// are placed in order; a job that cannot be placed keeps its place in the queue. Preemption costs
// nothing in the policy; the backend adds its cost. One thread; nanoseconds of the policy clock.
// On a cluster with several kinds of GPUs, each kind has its number: a running job counts on its
// kind, a waiting job on the first of its kinds that still has enough.
// Of jobs of equal rank, the job that was submitted earlier goes first, then a running job, then
// the job with the lower id.
#pragma once

#include <tuple>
#include <vector>

#include "core/tables/id_table.hpp"
#include "policies/queues/job_line.hpp"
#include "policies/queues/queue_policy.hpp"

namespace orrery {

/// Base of queue policies with preemption whose keys change only at events.
class PreemptivePolicy : public QueuePolicy {
 public:
  /// Writes numbers and digests of the waiting and the running jobs, for comparisons; load()
  /// rebuilds the queue from the job table.
  void save(Archive& archive) const override;
  /// Returns the needs of queue policies and `gpu_kinds`: each kind has its number of GPUs.
  Needs needs() const override;

 protected:
  /// Job with its place in a line.
  struct Track {
    JobPlace place;  ///< place in its line
    std::uint32_t gpus = 0;
    std::int64_t priority = 0;
    bool running = false;
    Nanos since = 0;   ///< start of the current run
    Nanos served = 0;  ///< duration of earlier runs
  };
  /// Returns the key that orders jobs of one size while they wait, or run. It must not change
  /// meanwhile, except through file_anew().
  virtual std::int64_t key_of(const Track& job) const = 0;
  /// Returns the rank that compares jobs of all sizes at an instant; never decreases within a line.
  virtual std::int64_t rank(const JobPlace& place, std::uint32_t gpus, bool running,
                            Nanos now) const = 0;
  /// Called for every job that begins to run, after its place is set.
  virtual void runs(const Track&) {}
  /// Called for every running job that stops, ends or is removed by clear(), while it still counts
  /// as running.
  virtual void on_idle(const Track&) {}
  /// Returns the reason of a start in the decision.
  virtual const char* reason() const = 0;
  /// Called after every pass, also if no job waits.
  virtual void after_pass(DecisionList&) {}

  void clear() override;
  void dispatch_jobs(const Observation& seen, DecisionList& decisions) override;
  /// Moves a job to its place by its present key_of(). Throws std::out_of_range for a job that
  /// neither runs nor waits.
  void file_anew(JobId job);

 private:
  struct Lane;
  struct Selection {
    std::vector<JobId> off, on;  ///< jobs in order
  };
  class Selecting;
  using Order = std::tuple<std::int64_t, Nanos, bool, std::uint64_t>;  ///< place in a pass

  void enter_queue(const JobInfo& job, Nanos now) override;
  void run(const JobInfo& job, Nanos since) override;
  void remove_job(const JobInfo& job) override;
  bool is_stop_relevant(Nanos now) const override { return now != taken_off_at_; }
  JobLines& line_of(const Track& job) { return job.running ? running_ : waiting_; }
  void file(Track& job);
  void take_out(Track& job);
  void begin(Track& job, Nanos now);
  void stop(Track& job, Nanos now);
  Order order_of(const JobPlace& place, std::uint32_t gpus, bool running, Nanos now) const {
    return {rank(place, gpus, running, now), place.submit, !running, place.job.value};
  }
  Selection select_by_kind(const Observation& seen) const;
  void preempt_jobs(const Observation& seen, const std::vector<JobId>& jobs,
                    DecisionList& decisions);
  void start_jobs(const Observation& seen, const std::vector<JobId>& jobs, DecisionList& decisions);

  IdTable<Track> jobs_;
  JobLines waiting_, running_;
  std::uint64_t running_gpus_ = 0, turns_ = 0;
  Nanos taken_off_at_ = -1;
};

}  // namespace orrery

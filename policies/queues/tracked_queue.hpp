// Jobs of a queue whose order changes without events: each job with its service, running jobs in
// the order of their starts, waiting jobs in the order in which they entered the queue. Base of the
// ranked queues and of multifactor. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policies/queues/queue_policy.hpp"

namespace orrery {

/// Base of queue policies that look at all jobs in every pass. For example, a job that ran for
/// 60 s, was preempted and runs again since 40 s has a service of 100 s.
class TrackedQueue : public QueuePolicy {
 public:
  /// Writes number and digest of the jobs, for comparisons; load() rebuilds the queue from the job
  /// table.
  void save(Archive& archive) const override;

 protected:
  /// Job with its service and place in the order.
  struct Track {
    JobId id;
    std::uint32_t pool = 0;  ///< number of its virtual cluster, in order of appearance
    std::uint32_t gpus = 0;
    Nanos submit = 0, estimate = 0;
    bool running = false;
    Nanos since = 0;             ///< start of the current run
    Nanos served = 0;            ///< duration of earlier runs
    std::uint64_t turn = 0;      ///< order of starts and arrivals
    std::uint64_t stays_in = 0;  ///< newest pass that selected the job

    Nanos service_at(Nanos now) const { return served + (running ? now - since : 0); }
  };
  using Jobs = std::vector<Track*>;
  /// Job with its rank.
  struct Ranked {
    double key = 0;
    Track* job = nullptr;
  };

  /// Called with a job that is over, after its removal.
  virtual void on_job_end(const JobInfo&) {}

  /// Returns the numbers of all virtual clusters that have had jobs, by name.
  const std::map<std::string, std::uint32_t>& pools() const { return pools_; }
  /// Returns the running jobs in the order of their starts.
  const Jobs& running() const { return running_; }
  /// Returns the waiting jobs in the order of the queue.
  const Jobs& waiting() const { return waiting_; }
  /// Returns the number of GPUs of all running jobs.
  std::uint64_t running_gpus() const { return running_gpus_; }

  /// Decides to preempt a running job, which enters the queue at its end, and adds its GPUs to the
  /// free GPUs. Call within dispatch_jobs().
  void preempt_job(const Observation& seen, Track& job, DecisionList& decisions);
  /// Decides to start a waiting job on GPUs that place_job() has returned.
  void start_job(const Observation& seen, Track& job, GpuRuns gpus, const char* why,
                 DecisionList& decisions);

 private:
  void enter_queue(const JobInfo& job, Nanos now) override;
  void run(const JobInfo& job, Nanos since) override;
  void remove_job(const JobInfo& job) override;
  void clear() override;
  bool is_stop_relevant(Nanos now) const override { return now != taken_off_at_; }
  void line_up(Track& job);
  void step_out(const Track& job);

  std::map<JobId, Track> jobs_;
  Jobs running_, waiting_;  ///< ordered by turn
  std::map<std::string, std::uint32_t> pools_;
  std::uint64_t running_gpus_ = 0, turns_ = 0;
  Nanos taken_off_at_ = -1;
};

}  // namespace orrery

// Queues whose order changes without events: by service, by shares of tenants, or by lateness.
// Every pass looks at all jobs, running and waiting, and selects those that shall run. Running jobs
// that are not selected are preempted first, then the selected waiting jobs are placed in the order
// of selection. A job that cannot be placed stays in the queue. Preemption costs nothing in the
// policy; the backend adds its cost. Base of gittins, finish-time-fairness, drf, max-min and
// multifactor. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policies/queues/queue_policy.hpp"

namespace orrery {

/// Base of queue policies with preemption that rank all jobs in every pass.
class RankedPolicy : public QueuePolicy {
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
    std::uint32_t place = 0;  ///< index in the given list
    Track* job = nullptr;
  };

  /// Returns the jobs that shall run, together at most `gpus`: waiting jobs in order, running jobs
  /// anywhere. `jobs`: the running jobs in the order of their starts, then the waiting jobs in the
  /// order of the queue.
  virtual Jobs select_jobs(const Jobs& jobs, std::uint64_t gpus, Nanos now) = 0;
  /// Called with a job that is over, after its removal.
  virtual void on_job_end(const JobInfo&) {}
  /// Returns the reason of a start in the decision.
  virtual const char* reason() const = 0;

  /// Returns true if running jobs may be preempted; otherwise no selection is made while no GPU is
  /// free.
  virtual bool can_make_room() const { return true; }

  /// Selects jobs by falling `key`, then by submission, then in the given order, skipping jobs that
  /// no longer fit into `gpus`. Returns the selected waiting jobs in this order, running jobs
  /// anywhere. Reorders `jobs`.
  static Jobs highest_first(std::vector<Ranked>& jobs, std::uint64_t gpus);
  /// Returns the numbers of all virtual clusters that have had jobs, by name.
  const std::map<std::string, std::uint32_t>& pools() const { return pools_; }

 private:
  void enter_queue(const JobInfo& job, Nanos now) override;
  void run(const JobInfo& job, Nanos since) override;
  void remove_job(const JobInfo& job) override;
  void clear() override;
  void dispatch_jobs(const Observation& seen, DecisionList& decisions) override;
  bool is_stop_relevant(Nanos now) const override { return now != taken_off_at_; }
  void line_up(Track& job);
  void step_out(const Track& job);
  void preempt_job(const Observation& seen, Track& job, DecisionList& decisions);
  void start_jobs(const Observation& seen, const Jobs& selected, DecisionList& decisions);

  std::map<JobId, Track> jobs_;
  Jobs running_, waiting_;  ///< ordered by turn
  std::map<std::string, std::uint32_t> pools_;
  std::uint64_t running_gpus_ = 0, turns_ = 0, passes_ = 0;
  Nanos taken_off_at_ = -1;
};

}  // namespace orrery

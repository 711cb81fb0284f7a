// Order of submission with sizes that follow the queue: a job that does not fit makes running jobs
// shrink, and free GPUs make jobs grow while no job waits. The size of a job is between least and
// most GPUs of its submission; a training job, and a job without such limits, keeps its size, so
// that without elastic jobs the policy is `fifo`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "policies/queues/queue_policy.hpp"

namespace orrery {

/// Queue policy `elastic`. The first waiting job starts with the GPUs that it asks for if they are
/// free. Otherwise running jobs shrink, the one that started last first, until its least number is
/// free; it gets the free GPUs up to those that it asks for. If even that is not enough, no job
/// shrinks for it, and the job blocks the rest. While no job waits, free GPUs go to jobs with fewer
/// than they ask for, then to those below their most, the one that started first first. A job grows
/// a time after its start or newest change of size at the earliest.
///
/// For example, on 8 GPUs a job of 8 GPUs, at least 2, shrinks to 4 when a rigid job of 4 GPUs
/// arrives, and grows again when that job has ended.
class ElasticPolicy : public QueuePolicy {
 public:
  /// Returns the needs of queue policies without `gpu_parts`: the policy divides GPUs by itself.
  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Writes the instants of the newest changes of size, and the numbers of jobs.
  void save(Archive& archive) const override;
  /// Restores the instants; the queue is rebuilt from the job table. Throws an internal Error for
  /// incomplete bytes.
  void load(const Archive& archive) override;

 private:
  /// Running elastic job, or a job that the present pass starts.
  struct Running {
    std::uint32_t least = 0, asked = 0, most = 0;
    Nanos started = 0;
    GpuRuns gpus = {};
    bool has_shrunk = false;  ///< true if it has shrunk in the present pass

    bool is_elastic() const { return least < most; }
    std::uint32_t size() const { return static_cast<std::uint32_t>(gpus.size()); }
    std::uint32_t surplus() const { return size() - std::min(size(), least); }
  };
  /// Job of `running_` with its start.
  struct Started {
    Nanos at = 0;
    JobId job;
    Running* running = nullptr;
  };

  void enter_queue(const JobInfo& job, Nanos now) override;
  void run(const JobInfo& job, Nanos since) override;
  void remove_job(const JobInfo& job) override;
  void clear() override;
  void dispatch_jobs(const Observation& seen, DecisionList& decisions) override;
  bool is_due(Nanos now) override { return now >= next_growth_; }

  static Running limits_of(const JobSpec& spec);
  /// Returns the jobs of `running_`, the one that started first first.
  std::vector<Started> by_start();
  /// Places a waiting job, after other jobs have shrunk if need be; returns false if it does not
  /// fit.
  bool place_waiting(const JobSpec& spec, Nanos now);
  /// Places the job on the free GPUs, at most as many as it asks for; returns false if fewer than
  /// its least number are free or the placement finds no place.
  bool place_on_free(const JobSpec& spec, Running& job);
  /// Returns `gpus` GPUs of the free ones; nothing if the placement finds no place.
  std::optional<GpuRuns> place_gpus(const JobSpec& spec, std::uint32_t gpus);
  /// Takes the last `gpus` GPUs from a running job.
  void shrink_job(Running& job, std::uint32_t gpus);
  /// Gives free GPUs to running jobs, and sets the instant at which the next job may grow.
  void grow_jobs(const Observation& seen);
  /// Adds the decisions about the jobs whose GPUs are others than in the table: jobs that shrink
  /// come first.
  void decide_changes(const Observation& seen, DecisionList& decisions) const;

  std::set<JobId> waiting_;
  std::map<JobId, Running> running_;
  std::map<JobId, Nanos> changed_;  ///< start or newest change of size of running elastic jobs
  Nanos settle_ = 0, next_growth_ = kNever;
};

}  // namespace orrery

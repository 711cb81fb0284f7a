// Priorities as Slurm's plugin priority/multifactor computes them, and EASY backfill. The priority
// of a job is the sum of weighted factors, each rounded to a whole number: the fair share of its
// virtual cluster, 2^(-u/s), with u the part of all used GPU time and s the part of all shares; its
// age in the queue over a maximal age; its GPUs over those of the cluster. Used GPU time counts
// half after each half-life. Highest priority first; if the first job does not fit, later ones may
// start if they do not delay it, by their estimates. Running jobs keep their GPUs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "policies/queues/ranked.hpp"

namespace orrery {

/// Queue policy `multifactor`. For example, of two virtual clusters with equal shares the one that
/// has used everything has the factor 2^(-1 / 0.5) = 0.25, the other has 1.
class MultifactorPolicy : public RankedPolicy {
 public:
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Writes the used GPU time of ended jobs, and number and digest of the queue.
  void save(Archive& archive) const override;
  /// Restores the used GPU time of ended jobs; the queue is rebuilt from the job table. Throws an
  /// internal Error for incomplete bytes.
  void load(const Archive& archive) override;

 private:
  /// GPUs that the first blocked job will have: all jobs that end by `shadow` are over then.
  struct Reservation {
    Nanos shadow = kNever;
    std::uint64_t extra = 0;  ///< GPUs that are left over then
  };
  /// Used GPU-seconds of a virtual cluster, as they count at the instant `at`.
  struct Usage {
    double gpu_s = 0;
    Nanos at = 0;
  };

  Jobs select_jobs(const Jobs& jobs, std::uint64_t gpus, Nanos now) override;
  void on_job_end(const JobInfo& job) override;
  bool can_make_room() const override { return false; }
  bool is_due(Nanos now) override;
  const char* reason() const override { return "highest priority, or fits behind it"; }

  /// Returns the GPU-seconds of `seconds` on `gpus` GPUs up to now, as they count now.
  double counted(double seconds, std::uint32_t gpus) const;
  /// Returns the fair-share factor of each virtual cluster with jobs, by its number.
  std::vector<double> fair_shares(const Jobs& jobs, Nanos now) const;
  /// Returns the reservation of a job that does not fit beside `running` with `gpus` GPUs free.
  static Reservation reserve(const Track& job, const Jobs& running, std::uint64_t gpus, Nanos now);

  std::map<std::string, Usage> used_;     ///< of ended jobs, by virtual cluster
  std::map<std::string, double> shares_;  ///< by virtual cluster; others have one share
  double half_life_s_ = 0, max_age_s_ = 0, all_gpus_ = 0;
  double fair_share_weight_ = 0, age_weight_ = 0, size_weight_ = 0;
  Nanos now_ = 0;
};

}  // namespace orrery

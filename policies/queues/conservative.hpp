// Conservative backfill (Mu'alem and Feitelson 2001): each of the first waiting jobs, as many as
// the parameter `reservations` says, has a reservation of a number of GPUs at the earliest instant
// at which it delays no earlier job of the queue, by expected ends; later jobs wait. Every pass
// plans again in queue order, so the time left over by a job that ends early goes to the first jobs
// in line, and starts the jobs whose reservation is now. A job that cannot be placed now is
// reserved from the next second on. On a cluster with several kinds of GPUs, a job has its
// reservation on the kind on which it can start first, of equal ones the one that it prefers.
#pragma once

#include <vector>

#include "policies/queues/availability.hpp"
#include "policies/queues/backfill.hpp"

namespace orrery {

/// Queue policy with reservations for the first waiting jobs. For example, with 8 GPUs busy until
/// 100 s, an 8-GPU job is reserved at 100 s, and a 1-GPU job behind it starts now only if a GPU is
/// free.
class ConservativePolicy : public BackfillPolicy {
 public:
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;

 private:
  void dispatch_jobs(const Observation& seen, DecisionList& decisions) override;
  void plan(Nanos now);
  bool all_too_large() const;
  void line_up();
  void dispatch_by_kind(const Observation& seen, DecisionList& decisions);
  void plan_by_kind(const Observation& seen);
  /// Starts the job if its reservation is now; reserves GPUs for it otherwise, or while it runs.
  void start_or_reserve(const Observation& seen, const JobSpec& job, DecisionList& decisions);

  struct Waiting {
    std::uint32_t gpus = 0;
    Nanos estimate = 0;
    JobId job;
  };
  bool may_start(const Waiting& job, Nanos now) const;

  Availability plan_;
  std::vector<Availability> plans_;       ///< one for each kind of GPU
  std::vector<Waiting> window_;           ///< jobs that get a reservation in this pass
  std::vector<std::uint32_t> scattered_;  ///< sizes that could not be placed in this pass
  std::uint32_t reservations_ = 0;        ///< largest number of reservations
};

}  // namespace orrery

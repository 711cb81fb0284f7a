// Small world for the tests of one policy, without a run. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Cluster with jobs that a test brings about by events, and calls of a policy in it. For example,
/// after `bench.start_job(4)`, `bench.observe(policy, {bench.loss_of({0}, {{2}})})` returns the
/// decisions on the loss of rank 2. The policy is started at its first call, without parameters
/// (null), and must outlive the bench. Decisions have no effect on the world.
class PolicyBench {
 public:
  /// Constructs a cluster without jobs.
  explicit PolicyBench(std::uint32_t nodes = 2, std::uint32_t gpus_per_node = 4);

  /// Submits a training job of `gpus` replicas of one GPU each with ten micro-batches a replica,
  /// which can shrink to one GPU, and starts it on the first GPUs without a job. Returns its id.
  /// The policy sees both events with its next call. Throws an internal Error if too few GPUs are
  /// without a job, or for 0 GPUs.
  JobId start_job(std::uint32_t gpus);
  /// Lets `seconds` of the policy clock pass.
  void advance_clock(double seconds) { now_ += to_nanos(seconds); }
  /// Returns the event that ranks of the job are lost now. Throws an internal Error for a job that
  /// is not in world(); unknown ranks are found by observe().
  Event loss_of(JobId job, std::vector<RankId> ranks) const;
  /// Applies the events, and returns the decisions of the policy on them. Ids count from 0 over all
  /// calls. Throws an internal Error for an event that is impossible now; exceptions of the policy
  /// pass through. Another policy than that of the previous call is started first.
  std::vector<Decision> observe(Policy& policy, std::vector<Event> events);

  /// Returns the world, for example for World::objection() to a decision.
  const World& world() const { return world_; }

 private:
  void apply(Event event);

  const Cluster cluster_;
  World world_;
  NoSamples samples_;
  Rng rng_{1};
  std::vector<Event> unseen_;
  Nanos now_ = 0;
  std::uint64_t calls_ = 0;
  DecisionId next_decision_ = 0;
  const Policy* started_ = nullptr;
};

}  // namespace orrery

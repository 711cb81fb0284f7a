// Known state of cluster and jobs at an instant, beside the immutable Cluster. The state changes
// only through World::apply(event), so a replay of the recorded events rebuilds it exactly. One
// world with any number of jobs, owned by a backend and read by policies; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policies/seam/cluster_state.hpp"
#include "policies/seam/decision.hpp"
#include "policies/seam/event.hpp"
#include "policies/seam/gpu_owners.hpp"
#include "topologies/cluster.hpp"

namespace orrery {

/// State machine of cluster and jobs, driven by events.
class World {
 public:
  explicit World(const Cluster& cluster);

  /// Returns the cluster's description.
  const Cluster& cluster() const { return *cluster_; }
  /// Returns owners, free GPUs and degraded parts.
  const ClusterState& state() const { return state_; }
  /// Returns the jobs that wait or run.
  const JobTable& jobs() const { return jobs_; }

  /// Returns the reason why the decision cannot be applied now: unknown job, GPU taken, sums that
  /// differ, memory limit, a past step; empty if it can. O(GPUs in the decision).
  std::string objection(const Decision& decision) const;
  /// Returns the same for a group of decisions, in their order: a job that leaves makes room for
  /// later decisions. The first value is the index of the rejected decision.
  std::pair<std::size_t, std::string> objection(std::span<const Decision> group) const;
  /// Returns the reason why the event is impossible now: an id out of range, a job submitted out of
  /// order, a step that goes back, the outcome of an unannounced decision; empty if it is possible.
  std::string objection(const Event& event) const;
  /// Stores a decision until its Decided event arrives; only then does it take effect.
  void announce_decision(const Decision& decision);
  /// Removes the jobs that the last observation showed as over. Call after the answer to an
  /// observation.
  void begin_batch();
  /// Applies an event at an instant of the policy clock. Throws an internal Error if the event is
  /// impossible.
  void apply(const Event& event, Nanos now);

  struct Kept;  ///< access for saving and restoring the whole world: live/run/files/kept_world

 private:
  struct Check;    // visitor over events: reasons why an event is impossible
  struct Change;   // visitor over events: their effect
  struct Effect;   // visitor over actions: their effect
  struct Against;  // visitor over actions: objections
  /// Placements by earlier decisions of the same group.
  using Supposed = std::vector<std::pair<JobId, GpuRuns>>;
  std::string against(const Decision& decision, Step at_step, const Supposed& supposed) const;
  void take_effect(const Decision& decision);
  void apply_change(const Event& event, Nanos now);
  std::string standing_objection(const JobInfo& job, const Assign& where,
                                 const Supposed& supposed) const;
  std::string gpu_objection(const JobInfo& job, GpuId gpu, const Supposed& supposed) const;
  bool is_healthy(GpuId gpu) const { return state_.is_healthy(gpu, cluster_->node_of(gpu)); }
  bool has_healthy_lost_gpus(const JobInfo& job) const;
  GpuOwners owners() { return {*cluster_, state_, lost_hosts_ > 0}; }
  void release_job(JobInfo& job, Nanos now);
  void account_time(JobInfo& job, Nanos now);
  void lose_ranks(JobInfo& job, const RanksLost& event);
  void start(JobInfo& job, const JobStarted& event, Nanos now);
  void change_part(const PartChanged& event, Nanos now);
  void begin_step(JobInfo& job, Step step);

  const Cluster* cluster_;
  ClusterState state_;
  JobTable jobs_;
  std::uint32_t lost_hosts_ = 0;  ///< number of lost GPUs and nodes
  std::vector<JobId> over_;       ///< jobs that leave the table with the next batch
  std::map<DecisionId, Decision> announced_;
  std::map<std::pair<JobId, Step>, std::vector<Setting>> ahead_;  ///< settings from a later step on
};

}  // namespace orrery

// What is known of cluster and jobs at an instant: state beside the immutable Cluster. It changes
// only through World::apply(event), so a replay that feeds the recorded events rebuilds it exactly.
// One world, any number of jobs. Owned by a backend, read by policies; one thread.
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

class World {
 public:
  explicit World(const Cluster& cluster);

  const Cluster& cluster() const { return *cluster_; }
  const ClusterState& state() const { return state_; }
  const JobTable& jobs() const { return jobs_; }

  /// Empty if the decision can hold now, else why not: unknown job, GPU taken, sums that differ,
  /// memory limit, a step that is past. O(GPUs that it names).
  std::string objection(const Decision& decision) const;
  /// The same for decisions that hold together, in their order: a job that leaves makes room for
  /// those behind it. Also says which one; the index of it.
  std::pair<std::size_t, std::string> objection(std::span<const Decision> group) const;
  /// Empty if the event can happen now, else why not: an id out of range, a job submitted out of
  /// order, a step that goes back, the outcome of a decision that nobody announced.
  std::string objection(const Event& event) const;
  /// Remembers a decision until its Decided event arrives; only then does it hold.
  void announce(const Decision& decision);
  /// An observation has been answered: jobs that it showed as over leave the table.
  void begin_batch();
  /// At an instant of the policy clock. Throws an internal Error where there is an objection.
  void apply(const Event& event, Nanos now);

  struct Kept;  ///< writes all of it down and reads it again: live/run/files/kept_world

 private:
  struct Check;    // visitor over events: may it happen?
  struct Change;   // visitor over events: it happens
  struct Effect;   // visitor over actions: it holds
  struct Against;  // visitor over actions: what stands against it
  /// Where jobs stand by decisions before this one in its group.
  using Supposed = std::vector<std::pair<JobId, GpuRuns>>;
  std::string against(const Decision& decision, Step at_step, const Supposed& supposed) const;
  void take_effect(const Decision& decision);
  void change(const Event& event, Nanos now);
  std::string standing_objection(const JobInfo& job, const Assign& where,
                                 const Supposed& supposed) const;
  std::string gpu_objection(const JobInfo& job, GpuId gpu, const Supposed& supposed) const;
  bool well(GpuId gpu) const { return state_.well(gpu, cluster_->node_of(gpu)); }
  bool lost_stand_well(const JobInfo& job) const;
  GpuOwners owners() { return {*cluster_, state_, lost_hosts_ > 0}; }
  void leave(JobInfo& job, Nanos now);
  void account(JobInfo& job, Nanos now);
  void lose(JobInfo& job, const RanksLost& event);
  void start(JobInfo& job, const JobStarted& event, Nanos now);
  void change_part(const PartChanged& event, Nanos now);
  void begin_step(JobInfo& job, Step step);

  const Cluster* cluster_;
  ClusterState state_;
  JobTable jobs_;
  std::uint32_t lost_hosts_ = 0;  ///< GPUs and nodes that are lost
  std::vector<JobId> over_;       ///< to leave the table
  std::map<DecisionId, Decision> announced_;
  std::map<std::pair<JobId, Step>, std::vector<Setting>> ahead_;  ///< from a later step on
};

}  // namespace orrery

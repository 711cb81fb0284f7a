// Known state of a cluster and its jobs. The state changes only by events (World::apply) and by
// announced decisions, so a replay of the recorded events and decisions rebuilds the state exactly.
// A backend owns one World with any number of jobs; policies read it. One thread. Instants (Nanos)
// are nanoseconds of the policy clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
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

/// State machine of a cluster and its jobs, driven by events. Copyable: a copy continues on its
/// own. Not thread-safe. For example, JobSubmitted adds a waiting job; announce_decision(Assign)
/// and its Decided event (applied) claim the GPUs; JobStarted places the job on them.
class World {
 public:
  /// Constructs a world without jobs; `cluster` must outlive the world.
  explicit World(const Cluster& cluster);

  /// Returns the description of the cluster.
  const Cluster& cluster() const { return *cluster_; }
  /// Returns owners, free GPUs and degraded parts.
  const ClusterState& state() const { return state_; }
  /// Returns the jobs that wait or run, and those that ended since the last begin_batch().
  const JobTable& jobs() const { return jobs_; }

  /// Returns the reason why a decision cannot be applied now (unknown job, owned GPU, wrong number
  /// of micro-batches, memory limit, past step, ...); empty if it can. Leaves out `expires`,
  /// `if_epoch` and the run's features, which DecisionGate checks. O(GPUs in the decision).
  std::string objection(const Decision& decision) const;
  /// Returns the index of the first decision of a group that cannot be applied after those before
  /// it, and the reason; the size of the group and an empty text if all can. GPUs that an earlier
  /// decision of the group takes from a job, by a release or by an assignment without them, are
  /// free for later decisions of the group; a second assignment of a job is an objection. A setting
  /// that waits_for_epoch() is checked against the layout of the group's assignment of its job,
  /// before or after it; its Decided event must follow that of the assignment.
  std::pair<std::size_t, std::string> objection(std::span<const Decision> group) const;
  /// Returns the reason why an event is impossible now (an id out of range, a job submitted out of
  /// order, a wrong next step, the outcome of an unannounced decision, ...); empty if the event is
  /// possible.
  std::string objection(const Event& event) const;
  /// Stores a decision, unchecked, until its Decided event, and assigns it to the current call. The
  /// decision takes effect with that event, if applied; a setting without a step has no effect if a
  /// setting of its kind for a later step than that of its announcement has begun meanwhile: the
  /// time until ranks agree makes no difference. Throws an internal Error if a decision with
  /// this id awaits its Decided event.
  void announce_decision(const Decision& decision);
  /// Returns true if both decisions await their outcomes and were announced in one call, which is
  /// between two calls of begin_batch(). Returns false for an id that is not announced.
  bool is_same_call(DecisionId one, DecisionId other) const;
  /// Returns true for a setting that, next to an assignment of its job, waits for the epoch of the
  /// assignment: the setting must be the same during a whole step, or the job has no GPUs. Returns
  /// false for an Assign, for a Save, and for a job that is not in the table.
  bool waits_for_epoch(const Action& what) const;
  /// Returns true if the decision is a setting that waits_for_epoch() and was announced in the same
  /// call as the pending assignment of its job, or whose job is on hold with a pending assignment.
  /// Such a setting is checked against the layout of the assignment, and applies from the
  /// JobStarted of the assignment on, at the earliest from its own step on. Returns false if the
  /// pending assignment takes all GPUs from the job.
  bool starts_with_assignment(const Decision& decision) const;
  /// Removes the jobs that have ended since the last call from jobs(), and begins a new call (see
  /// is_same_call()). Call once for each observation, before its decisions are announced.
  void begin_batch();
  /// Applies an event at the instant `now` to jobs() and state(); increases state().version unless
  /// the event is a Tick. Instants must not decrease (not checked). Throws an internal Error, and
  /// changes nothing, if the event is impossible (objection()).
  void apply(const Event& event, Nanos now);
  /// Applies as apply() an event that the caller has made from the state of this world, so that it
  /// is possible; nothing checks that. For example, the end of a job that runs.
  void apply_possible(const Event& event, Nanos now);

  /// Makes this world, a copy of `earlier` with later changes, equal to `earlier` again; cheaper
  /// than an assignment.
  void restore_state(const World& earlier);

  struct Kept;  ///< access to all members for live/run/files/kept_world, which saves a world

 private:
  struct Check;    // visitor of events: returns the reason why an event is impossible
  struct Change;   // visitor of events: applies the effect
  struct Effect;   // visitor of actions: applies the effect
  struct Against;  // visitor of actions: returns the objection
  /// Jobs and GPUs of earlier assignments of the same group.
  using Supposed = std::vector<std::pair<JobId, GpuRuns>>;
  /// Precedence of a value among the values of one setting: the value of the later step counts, and
  /// of one step that of the later decision. A setting without a step has the step of the job in
  /// the call that decided the setting. So the time until a decision is applied does not matter.
  struct Precedence {
    Step step = 0;
    DecisionId decision = 0;
    friend auto operator<=>(const Precedence&, const Precedence&) = default;
  };
  /// Decision without an outcome, the number of its call, and the step of its job in that call.
  struct Announced {
    Decision decision;
    std::uint64_t call = 0;
    Step step = 0;
    Precedence precedence() const { return {std::max(decision.at_step, step), decision.id}; }
  };
  /// Decided value of a setting that has not begun.
  struct DecidedSetting {
    Precedence precedence;
    Setting what;
  };
  /// Settings that start with the pending assignment of a job, with their earliest steps.
  struct Coming {
    std::uint64_t call = 0;  ///< call that decided the assignment; 0: unknown
    std::vector<std::pair<Step, DecidedSetting>> settings;
  };
  std::string against(const Decision& decision, Step at_step, const Supposed& supposed,
                      const ParallelLayout* next) const;
  const ParallelLayout* coming_layout(const Decision& decision) const;
  void take_effect(const Announced& announced);
  void apply_change(const Event& event, Nanos now);
  std::string standing_objection(const JobInfo& job, const Assign& where,
                                 const Supposed& supposed) const;
  std::string gpu_objection(const JobInfo& job, GpuId gpu, const Supposed& supposed) const;
  bool is_healthy(GpuId gpu) const { return state_.is_healthy(gpu, cluster_->node_of(gpu)); }
  GpuOwners owners() { return {*cluster_, state_, lost_hosts_ > 0}; }
  void release_job(JobInfo& job, Nanos now);
  void account_time(JobInfo& job, Nanos now);
  void lose_ranks(JobInfo& job, const RanksLost& event);
  void drop_void_assignment(JobInfo& job);
  void start(JobInfo& job, const JobStarted& event, Nanos now);
  void change_part(const PartChanged& event, Nanos now);
  void begin_step(JobInfo& job, Step step);

  const Cluster* cluster_;
  ClusterState state_;
  JobTable jobs_;
  std::uint32_t lost_hosts_ = 0;               ///< number of lost GPUs and nodes
  bool has_copies_ = false;  ///< true once a checkpoint was in the memory of nodes
  std::vector<JobId> over_;                    ///< jobs that begin_batch() removes
  std::uint64_t calls_ = 1;                    ///< number of the current call
  std::map<DecisionId, Announced> announced_;  ///< decisions without an outcome
  std::map<JobId, Coming> coming_;             ///< keyed by jobs with a pending assignment
  /// settings from a later step on
  std::map<std::pair<JobId, Step>, std::vector<DecidedSetting>> ahead_;
  /// precedences of the present values, by job and kind of setting; absent: that of the submission
  std::map<std::pair<JobId, std::size_t>, Precedence> present_;
};

}  // namespace orrery

// Faults of a scenario applied to the ranks and links of one job. Used from one thread. Times are
// nanoseconds of the policy clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "sim/estimates/plan/hardware_state.hpp"
#include "topologies/cluster.hpp"
#include "topologies/part.hpp"
#include "traces/report.pb.h"
#include "traces/scenario/fault_script.hpp"

namespace orrery::sim {

/// Fault that removes a rank, or the cause of a link that is down.
struct FatalFault {
  RankId rank;
  std::string cause;    ///< "rank 3 killed"
  bool killed = false;  ///< true if the rank itself is lost
  /// True if the rank stalls without a report: only missing heartbeats reveal the loss.
  bool silent = false;
  bool of_process = false;  ///< kill or stop of the process, not of its hardware
  /// Instant of the loss, nanoseconds of the policy clock.
  Nanos at = 0;
  std::size_t fault = 0;  ///< index of the fault in the scenario
  /// Own times of the fault, instead of those of `survival`.
  std::optional<Nanos> detection = {}, restart = {}, replacement = {};
  /// Time before the loss since which the training state is corrupted; nothing if it is not.
  std::optional<Nanos> corrupted = {};
  /// Instant at which the stalled rank runs again; nothing if it never does.
  std::optional<Nanos> returns = {};
};

/// Returns the last instant up to which a job without a new step since `since` waits for failures
/// and repairs: 30 days later, and never before day 60. Failures have no end, so a wait needs one.
constexpr Nanos end_of_patience(Nanos since) {
  constexpr Nanos kDay = 86'400 * kNanosPerSecond;
  return std::max(60 * kDay, since < kNever - 30 * kDay ? since + 30 * kDay : kNever);
}

/// Faults of a scenario (FaultScript) applied to the ranks and links of one job, placed on the GPUs
/// of `placement`. Records which faults have killed ranks and which were felt. A step that is
/// repeated after a rollback has the faults of the last step that has begun (mark_felt()): parts do
/// not recover because a job loads a checkpoint. Owned by the job's backend; not thread-safe. The
/// cluster must outlive this object.
class FaultPlan {
 public:
  /// Reads the faults; `placement` is the GPU of each rank. Throws bad_input for parts that the
  /// cluster lacks, and for faults of the storage in a run without the keys `checkpoints` and
  /// `job.input.stored`.
  FaultPlan(const Scenario& scenario, const Cluster& cluster, std::vector<GpuId> placement);

  /// Moves the ranks to `placement` from now on; GPU by rank. Spent losses stay spent, and faults
  /// of steps that have begun (mark_felt()) end no rank on a GPU that had none. Faults that name a
  /// rank require an entry for that rank; queries that need the rank's GPU throw std::out_of_range
  /// otherwise.
  void move_ranks(std::vector<GpuId> placement);

  /// Returns the state during `step`, with the faults of instants that are active at `now`; empty
  /// without an active fault. Kills, stops and lost GPUs and nodes change no state. Where the
  /// cluster reroutes, a part between leaf switches that has been down for the reroute time halves
  /// its links instead of taking them down.
  estimates::HardwareState state(Step step, Nanos now) const;
  /// Returns the first step after `step` whose state or losses may differ; nothing if no step does.
  std::optional<Step> next_change(Step step) const {
    return script_.next_step(furthest_step(step));
  }
  /// Returns the ranks that are lost first, all at one instant, by rank; empty if none: at `step`,
  /// which begins at `from`, or at an instant from `from` on and before `until`. Without a step
  /// only faults of instants count. Losses of the newest instant that were not marked as spent are
  /// returned again, with `from` as instant.
  std::vector<FatalFault> losses(std::optional<Step> step, Nanos from, Nanos until) const;
  /// Returns the first of losses(); nothing if no rank is lost.
  std::optional<FatalFault> first_loss(Step step, Nanos from, Nanos until) const;
  /// Returns the ranks that are stopped at `now`, and the instants at which they run again; without
  /// stops that do not end.
  std::vector<std::pair<RankId, Nanos>> stopped_ranks(Nanos now) const;
  /// Marks a loss as done, so that losses() does not return it again, and its fault as felt, if the
  /// fault has a cause in the scenario. The instant of the loss becomes the newest instant.
  void mark_spent(const FatalFault& killed);
  /// Returns the fault that took down `link`, which must be one of the links that are down during
  /// `step` at `now`. Throws an internal Error otherwise.
  FatalFault cause_of(LinkId link, Step step, Nanos now) const;
  /// Returns the available share of the storage's rate during `step` at `now`; 1 without a fault, 0
  /// if the storage accepts nothing.
  double storage(Step step, Nanos now) const;
  /// Link that lost a share of its bandwidth, and the kind of part that caused the loss.
  struct Thinned {
    LinkId link;
    PartKind by{};
  };
  /// Returns the links that lose a share of their bandwidth because a part, such as one of several
  /// parallel cables, goes down at exactly `instant`, with the kind of part. A link is listed once
  /// for each such part.
  std::vector<Thinned> thinned(Nanos instant) const;
  /// Returns the first instant from `now` on at which `link` is up while `step` waits for the link,
  /// because a fault ends or traffic is rerouted; `now` if the link is up; nothing if the link
  /// never comes up. A fault that ends at a step does not end, and drawn failures count only if
  /// they begin by end_of_patience(now).
  std::optional<Nanos> up_again(LinkId link, Step step, Nanos now) const;
  /// Returns the instants after `from` and before `until` at which the script changes, ascending.
  std::vector<Nanos> instants(Nanos from, Nanos until) const {
    return script_.instants(from, until);
  }
  /// Returns the first instant after `after` at which the script changes, reroutes excluded;
  /// nothing if it never does. Failures that are still to be drawn count if they begin by
  /// `horizon`.
  std::optional<Nanos> next_instant(Nanos after, Nanos horizon = kNever) const {
    return script_.next_instant(after, horizon);
  }
  /// Returns true if a fault begins, ends or is announced at exactly `instant`.
  bool has_change_at(Nanos instant) const { return script_.has_change_at(instant); }
  /// Returns the parts of the cluster that pass no traffic during `step` at `now`, including NICs
  /// of ranks.
  std::set<Part> lost_parts(Step step, Nanos now) const;
  /// Returns the parts of the cluster that are slower than their data sheet says during `step` at
  /// `now`, each with the share of its rate that is left, including NICs of ranks.
  std::map<Part, double> slower_parts(Step step, Nanos now) const;
  /// Returns the planned removals that are announced by the begin of `step` and by `now`, until the
  /// parts return.
  std::map<Part, Removal> removals(Step step, Nanos now) const {
    return script_.removals(moment(step, now));
  }
  /// Returns the duration of the test of the part when it returns; 0: no test.
  Nanos test_time(Part part) const { return script_.test_time(part); }
  /// Ranks and links of the faults that change at one instant; a rank or link may occur twice.
  struct Touched {
    std::vector<RankId> ranks;
    std::vector<LinkId> links;
  };
  /// Returns the ranks and links of the faults that begin or end at exactly `instant`.
  Touched touched_at(Nanos instant) const;
  /// Returns the number of faults that began by the beginning of `step` and by `now`.
  std::uint64_t begun_count(Step step, Nanos now) const {
    return script_.begun_count(moment(step, now));
  }
  /// Marks `step` as begun, and the faults that are active during `step` at `now` as felt, because
  /// a step ran under them. Skips faults without a cause in the scenario and faults that end ranks.
  void mark_felt(Step step, Nanos now);
  /// Adds one entry to the report for each cause in the scenario's faults: the number of faults
  /// that began by `step` or, after the instant `from`, by `now`, and the number of faults, since
  /// the construction, under which a step ran or that ended a rank. Faults without a cause are
  /// omitted, and causes without a begun fault.
  void append_fault_counts(Step step, Nanos from, Nanos now, Report& report) const;
  /// Removes drawn faults that were over before `now` from memory, if there are many. Later queries
  /// may not look before `now`, except the counts, whose `from` must always be `counted_from`.
  void forget_before(Nanos now, Nanos counted_from);

 private:
  /// Returns `step`, or the last step that has begun if `step` is repeated after a rollback.
  Step furthest_step(Step step) const { return std::max(begun_.value_or(step), step); }
  Moment moment(Step step, Nanos now) const {
    return {static_cast<std::int64_t>(furthest_step(step)), now};
  }
  /// Returns the links of a target: of a rank its NIC's links, of a fabric part all affected links.
  std::vector<LinkId> links_of(const FaultTarget& target) const;
  /// Returns the ranks that are placed on the GPUs of a target.
  std::vector<RankId> ranks_of(const FaultTarget& target) const;
  /// Lost share of bandwidth by link, caused by parts that are a share of the link.
  using Shares = std::map<std::uint32_t, double>;
  /// Adds the effect of one condition to `state`, or to `lost` if the target is a share of a link.
  void add(const FaultTarget& target, const Condition& condition, estimates::HardwareState& state,
           Shares& lost) const;
  /// Returns true if a part is down for so long that traffic is rerouted around it. Only parts
  /// between leaf switches have alternatives.
  bool is_avoided(const Part& part, Step step, Nanos now) const;
  /// Returns the first instant after `now` at which traffic is rerouted around a lost part.
  std::optional<Nanos> next_reroute(Step step, Nanos now) const;
  /// Returns the earliest begin of the timed outages of a part; nothing if no timed outage is
  /// active.
  std::optional<Nanos> down_since(const FaultTarget& target,
                                  const std::set<std::uint32_t>& faults) const;
  /// Marks the losses of the ranks from `first` on by faults of steps that have begun as spent.
  void spend_begun_losses(std::uint32_t first);
  /// Marks the faults all of whose ranks are marked as lost as spent in the script.
  void mark_spent_faults();
  /// Marks a fault as spent in the script if all of its ranks are marked as lost.
  void mark_if_spent(std::uint32_t fault);
  /// Returns the ranks that a strike kills, except those already marked as lost, by rank. Faults of
  /// GPUs without a rank kill nothing.
  std::vector<FatalFault> struck_ranks(const FaultScript::Strike& strike) const;

  /// GPUs of the ranks, and the ranks of each GPU. Shared by copies of the plan.
  struct Placement {
    std::vector<GpuId> gpus;
    std::map<GpuId, std::vector<RankId>> ranks_at;
  };
  const Cluster* cluster_;
  FaultScript script_;
  std::shared_ptr<const Placement> placement_;
  /// (fault, rank) of losses that happened.
  std::set<std::pair<std::size_t, std::uint32_t>> spent_;
  std::optional<Step> begun_;  ///< last step of the run that has begun; nothing: none
  /// Faults under which a step ran, or that lost a rank.
  std::set<std::uint32_t> felt_;
  std::map<std::string, std::uint64_t> felt_causes_;  ///< felt faults that were removed, by cause
  /// Instant of the newest loss; other losses of that instant may be pending.
  std::optional<Nanos> last_struck_;

  /// Passes the marks of the faults to a StateWriter or StateReader; the faults themselves follow
  /// from the scenario.
  template <class Archive>
  friend void fields(Archive& archive, FaultPlan& of) {
    archive(of.spent_, of.begun_, of.felt_, of.felt_causes_, of.last_struck_);
    if constexpr (Archive::kReads) of.mark_spent_faults();
  }
};

}  // namespace orrery::sim

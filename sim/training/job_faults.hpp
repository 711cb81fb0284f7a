// Faults of a scenario as they affect one training job: the working ranks that the faults kill, the
// lost parts of the cluster, and the instants at which these parts are reported. FaultPlan knows
// the times of the faults; JobFaults knows the placement of the job. Owned by a training run; one
// thread. Nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/training/fault_plan.hpp"
#include "sim/training/fit_cache.hpp"
#include "sim/training/job_in_world.hpp"
#include "sim/training/losses.hpp"

namespace orrery::sim {

/// Faults of a scenario applied to one job. A fault names a rank by its number at the begin of the
/// run, which is the number of a GPU (FitCache): if the job has left that GPU, the fault kills no
/// rank. For example, after rank 3 was replaced by a spare, another fault of rank 3 kills no rank.
class JobFaults {
 public:
  /// Constructs the faults of a job; all arguments must outlive this object. Throws as FaultPlan.
  JobFaults(const JobInWorld& here, const FitCache& fits, const Losses& losses);

  /// Returns the times and states of the faults.
  const FaultPlan& plan() const { return plan_; }
  FaultPlan& plan() { return plan_; }
  /// Applies the faults from now on to the GPUs as the fit cache numbers them now. Call whenever
  /// the cache has numbered other GPUs (FitCache::begin_at, FitCache::number_gpus).
  void update_gpu_numbers() { plan_.move_ranks(fits_.numbered()); }

  /// Continues from a log that ended at `now`, within `step`: takes the lost parts of the world as
  /// reported, and marks the faults of `step` that strike at `now` as spent unless they kill a rank
  /// that still works and is not in `lost_in_step`. Call once, before other methods, after the
  /// job's submission, when the world has the state at the end of the log.
  void continue_from(Step step, Nanos now, const std::set<RankId>& lost_in_step);

  /// Returns the rank that works on the GPU with number `home_rank`; nothing if the job does not
  /// use the GPU or if its rank is lost, detected or not. Call after the job's submission. Throws
  /// std::out_of_range for a number without a GPU.
  std::optional<RankId> rank_at_work(std::uint32_t home_rank) const;
  /// Returns the losses of working ranks that come first, all at one instant: at the begin `from`
  /// of `step`, if given, or from `from` on and before `until`; without `step` only faults of
  /// instants count. Empty if no working rank is lost. The ranks of the result are numbers of GPUs
  /// (rank_at_work()). Losses of the newest instant that are not spent are returned again
  /// (FaultPlan::losses); the caller marks handled losses as spent in plan(). Marks the losses of
  /// ranks that do not work at their instant as spent itself: these faults kill no rank later
  /// either. Call after the job's submission. Throws as rank_at_work().
  std::vector<FatalFault> next_losses(std::optional<Step> step, Nanos from,
                                                 Nanos until) const;
  /// Marks the losses of the instant `now` that strike processes which start on `gpus` and whose
  /// hardware works in `step` as spent. Returns nothing if there are none, else true if one of them
  /// is silent. Call after the job's submission.
  std::optional<bool> drain_starting_losses(const GpuRuns& gpus, Step step, Nanos now);
  /// Returns the duration for which packets lost by a fault at exactly `instant` stall the job; 0
  /// if the cluster detects no losses. A lost port of any NIC of the cluster stalls the job,
  /// whether or not the job uses it; a lost part between switches only if a flow of the job crosses
  /// it. Not for an instant before the newest forget_before() of plan().
  Nanos stalled_by(Nanos instant) const;

  /// Returns true if all of these GPUs, and their nodes, are healthy in the world, which knows the
  /// reported changes only; true without GPUs.
  bool are_parts_healthy(const GpuRuns& gpus) const;
  /// Schedules a report at the instant `at` for each part of the cluster that is newly lost, newly
  /// announced to be removed, or no longer lost, during `step`, compared with the newest call. A
  /// part that returns is reported after its test; a new loss during the test cancels the report.
  /// Emits no event (drain_events()).
  void note_parts(Step step, Nanos at);
  /// Returns the instant of the first scheduled report; kNever if no report is scheduled.
  Nanos next_event_time() const;
  /// Appends the reports that are due by `now` to `out`, in the order of scheduling, and removes
  /// them.
  void drain_events(Nanos now, std::vector<Event>& out);

 private:
  const JobInWorld& here_;
  const FitCache& fits_;
  const Losses& losses_;
  /// mutable because next_losses() marks losses as spent
  mutable FaultPlan plan_;
  /// states of parts that have been, or will be, reported
  std::map<Part, PartState> reported_;
  std::vector<std::pair<Nanos, PartChanged>> news_;  ///< scheduled reports
};

}  // namespace orrery::sim

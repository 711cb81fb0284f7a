// Faults of a scenario as they affect one training job: the working ranks that they kill, the lost
// parts of the cluster, and the instants at which these are reported. FaultPlan knows the times of
// the faults; this class knows the placement of the job. Kept by a training run; one thread.
// Nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/estimates/plan/hardware_state.hpp"
#include "sim/jobs/fit_cache.hpp"
#include "sim/jobs/job_in_world.hpp"
#include "sim/jobs/losses.hpp"

namespace orrery::sim {

/// Faults of one job.
class JobFaults {
 public:
  /// Constructs the faults of a job; all arguments must outlive this object.
  JobFaults(const JobInWorld& here, const FitCache& fits, const Losses& losses);

  const estimates::FaultPlan& plan() const { return plan_; }
  estimates::FaultPlan& plan() { return plan_; }
  /// Updates the numbers of the job's GPUs.
  void numbered() { plan_.move_ranks(fits_.numbered()); }

  /// Continues after a log that ended before the end of `step`, at `now`: the lost parts of the
  /// world until then have been reported, and the ranks `lost_in_step` are dead.
  void continue_from(Step step, Nanos now, const std::set<RankId>& lost_in_step);

  /// Returns the job's number of a rank from its number at the begin of the run; nothing if the
  /// rank does not work.
  std::optional<RankId> rank_at_work(std::uint32_t home_rank) const;
  /// Returns the ranks that die first, at one instant: at `step`, if given, which begins at `from`,
  /// or before `until`. A rank that does not work at that instant is not killed by this fault later
  /// either.
  std::vector<estimates::FatalFault> next_losses(std::optional<Step> step, Nanos from,
                                                 Nanos until) const;
  /// Returns the stall of the step by packets that a fault at exactly `instant` has lost.
  Nanos stalled_by(Nanos instant) const;

  // Returns true if none of these GPUs is lost.
  bool are_parts_healthy(const GpuRuns& gpus) const;
  /// Schedules reports of the parts that are lost or restored during `step` at `at`.
  void note_parts(Step step, Nanos at);
  Nanos next_event_time() const;  ///< kNever: none
  /// Adds the reports that are due by `now`, once.
  void drain_events(Nanos now, std::vector<Event>& out);

 private:
  const JobInWorld& here_;
  const FitCache& fits_;
  const Losses& losses_;
  /// mutable: it remembers faults that can kill no rank any more
  mutable estimates::FaultPlan plan_;
  std::set<Part> lost_;     ///< parts whose loss has been, or will be, reported
  std::vector<std::pair<Nanos, PartChanged>> news_;
};

}  // namespace orrery::sim

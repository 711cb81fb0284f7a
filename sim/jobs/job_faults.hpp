// A scenario's faults as one training job meets them: whom of those at work they strike, what of
// the cluster is lost to it, and when that is to be told. FaultPlan knows what holds when; here is
// who stands there. Kept by a training run; one thread. Nanoseconds of the policy clock.
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

class JobFaults {
 public:
  /// All outlive this.
  JobFaults(const JobInWorld& here, const FitCache& fits, const Losses& losses);

  const estimates::FaultPlan& plan() const { return plan_; }
  estimates::FaultPlan& plan() { return plan_; }
  /// Its GPUs have got numbers.
  void numbered() { plan_.place(fits_.numbered()); }

  /// A log ended before `step` was over, at `now`: what the world has lost by then has been told,
  /// and who was `lost_in_step` has been struck.
  void go_on(Step step, Nanos now, const std::set<RankId>& lost_in_step);

  /// The job's number of a rank by its number as the run began; nothing if it does not work.
  std::optional<RankId> rank_at_work(std::uint32_t home_rank) const;
  /// The ranks that are struck first, at one instant: at `step`, if one is given, which begins at
  /// `from`, or before `until`. Who is not at work then is struck neither then nor later.
  std::vector<estimates::FatalFault> next_losses(std::optional<Step> step, Nanos from,
                                                 Nanos until) const;
  /// What of a step waits for packets that a fault at exactly `instant` has lost.
  Nanos stalled_by(Nanos instant) const;

  // Parts of the cluster.
  bool parts_are_well(const GpuRuns& gpus) const;  ///< none of these GPUs is lost
  /// What is lost or back during `step` at `at` is to be told then.
  void note_parts(Step step, Nanos at);
  Nanos next_news() const;  ///< kNever: none
  /// Adds what is to be told by `now`, and forgets it.
  void take_news(Nanos now, std::vector<Event>& out);

 private:
  const JobInWorld& here_;
  const FitCache& fits_;
  const Losses& losses_;
  mutable estimates::FaultPlan plan_;  ///< remembers what can strike nobody any more
  std::set<Part> lost_;     ///< that have been, or will be, told
  std::vector<std::pair<Nanos, PartChanged>> news_;
};

}  // namespace orrery::sim

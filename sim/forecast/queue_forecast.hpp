// Futures of a queue of jobs under several policies: draws the unknown durations and arrivals
// several times, and simulates each draw under each policy. All policies get the same draws (common
// random numbers), so that their difference is that of the policies. Used by sim/forecast/twin and
// sim/forecast/policy_choice. Pure functions of their arguments; nanoseconds of the policy clock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/forecast/forked_queue.hpp"
#include "sim/forecast/queue_learner.hpp"
#include "sim/forecast/queue_snapshot.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Goal of a queue: mean wait, mean completion time (wait and run), mean of the completion time
/// over the duration (at least 60 s). Smaller is better.
enum class QueueGoal : std::uint8_t { wait, jct, slowdown };
inline constexpr std::size_t kQueueGoals = 3;
/// Returns the name of a goal: wait, jct, slowdown.
std::string_view name_of(QueueGoal goal);
/// Returns the names of all goals.
std::vector<std::string> queue_goal_names();
/// Returns the goal of a name. Throws a usage Error with the nearest name for another text.
QueueGoal queue_goal(const std::string& name);

/// Number and length of the futures.
struct FutureOptions {
  std::uint32_t samples = 24;
  Nanos horizon = 24 * 3600 * kNanosPerSecond;  ///< time in which jobs arrive
  /// time after the horizon in which the jobs of a future may end: a policy pays for the long jobs
  /// that it delays
  Nanos rest = 0;
  std::size_t most_arrivals = 2000;             ///< jobs that arrive in one future
  std::uint64_t seed = 1;
  /// true: the jobs of a future share a draw of all distributions (PossibleDurations), so that the
  /// intervals are as wide as the model is uncertain; false: each job is drawn alone, so that means
  /// over the futures have less noise
  bool shares_unknowns = false;
};

/// Unknown quantities of one future.
struct FutureDraw {
  std::vector<Nanos> left;      ///< rest of the duration, by job of the snapshot
  std::vector<LaterJob> later;  ///< jobs that arrive
};

/// Returns the draws. A job has the same random numbers at all instants of one seed.
std::vector<FutureDraw> draw_futures(const QueueSnapshot& from, const QueueLearner& learner,
                                     const FutureOptions& options);

/// Returns the policy of `replay` for a run that it joins in the middle: at its first observation
/// it rebuilds its queue from the table of jobs. Throws bad_input for an unknown policy.
std::unique_ptr<Policy> resumed_policy(const JobReplay& replay);
/// Returns the policy for a run that it joins in the middle, as above.
std::unique_ptr<Policy> resumed_policy(std::unique_ptr<Policy> policy);

/// Runs the future to its end under the policy, which has not been started.
void run_future(ForkedQueue& future, Policy& policy);

/// Futures under one policy.
struct PolicyFutures {
  std::string policy;
  /// starts and ends by job of the snapshot, ascending; kNever: beyond the end of the future
  std::vector<std::vector<Nanos>> starts, ends;
  /// means over the jobs of one draw, by goal, then by draw; seconds or a factor. A job that has
  /// not started or ended counts up to the end of the future.
  std::array<std::vector<double>, kQueueGoals> goals;

  /// Returns the mean over the draws.
  double mean(QueueGoal goal) const;
};

/// Simulates all draws under the policy of `replay` (policy, placement and parameters), each with
/// these changes of parts.
PolicyFutures simulate_futures(const QueueSnapshot& from, const std::vector<FutureDraw>& draws,
                               const JobReplay& replay, const FutureOptions& options,
                               const LaterChanges& changes = {});

}  // namespace orrery::sim

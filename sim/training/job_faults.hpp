// Faults of a scenario as they affect one training job: the working ranks that the faults kill, the
// lost parts of the cluster, and the instants at which these parts are reported. FaultPlan knows
// the times of the faults, these functions the placement of the job. A fault names a rank by its
// number at the begin of the run, which is the number of a GPU (FitState): if the job has left that
// GPU, the fault kills no rank. For example, after rank 3 was replaced by a spare, another fault of
// rank 3 kills no rank. One thread. Nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/training/job_in_world.hpp"
#include "sim/training/training_state.hpp"

namespace orrery::sim {

/// Returns the rank that works on the GPU with number `home_rank`; nothing if the job does not use
/// the GPU or if its rank is lost, detected or not. Throws std::out_of_range for a number without a
/// GPU.
std::optional<RankId> rank_at_work(const JobInfo& job, const TrainingState& state,
                                   std::uint32_t home_rank);
/// Returns the losses of working ranks that come first, all at one instant: at the begin `from` of
/// `step`, if given, or from `from` on and before `until`; without `step` only faults of instants
/// count. Empty if no working rank is lost. The ranks of the result are numbers of GPUs
/// (rank_at_work()). Losses of the newest instant that are not spent are returned again
/// (FaultPlan::losses); the caller marks handled losses as spent. Marks the losses of ranks that do
/// not work at their instant as spent itself: these faults kill no rank later either. Throws as
/// rank_at_work().
std::vector<FatalFault> next_losses(const JobInfo& job, TrainingState& state,
                                    std::optional<Step> step, Nanos from, Nanos until);
/// Rank that a fault kills. The rank of `fault` is the number of a GPU.
struct StruckRank {
  RankId rank;
  FatalFault fault;
};
/// Marks the losses that next_losses() returns as spent, and returns each rank that they kill with
/// its first loss, dead ranks before silent ones. If a rank is killed, also schedules the reports
/// of the parts that have changed by now (note_parts()). Throws as next_losses().
std::vector<StruckRank> drain_losses(const JobInfo& job, TrainingState& state,
                                     std::optional<Step> step, Nanos from, Nanos until);
/// Marks the losses of this instant that strike starting processes (ProcessRole::starting) whose
/// hardware works in the current step as spent, and returns them.
std::vector<FatalFault> drain_starting_losses(const JobInWorld& here, TrainingState& state);
/// Returns the duration for which packets lost by a fault at exactly `instant` stall the job; 0 if
/// the cluster detects no losses. A lost port of any NIC of the cluster stalls the job, whether or
/// not the job uses it; a lost part between switches only if a flow of the job crosses it. Not for
/// an instant before the newest FaultPlan::forget_before().
Nanos stalled_by(const TrainingSetup& setup, const TrainingState& state, Nanos instant);

/// Returns true if all of these GPUs, and their nodes, are healthy in the world, which knows the
/// reported changes only; true without GPUs.
bool are_parts_healthy(const World& world, const GpuRuns& gpus);
/// Schedules a report at the instant `at` for each part of the cluster that is newly lost, slower,
/// announced to be removed, or as its data sheet says again, during `step`, compared with the
/// newest call. A part that returns is reported after its test, with what has changed during the
/// test; a new loss during the test cancels the report. Emits no event (drain_reports()).
void note_parts(JobFaults& faults, Step step, Nanos at);
/// Returns the instant of the first scheduled report; kNever if no report is scheduled.
Nanos next_report_time(const JobFaults& faults);
/// Appends the reports that are due by `now` to `out`, in the order of scheduling, and removes
/// them.
void drain_reports(JobFaults& faults, Nanos now, std::vector<Event>& out);

}  // namespace orrery::sim

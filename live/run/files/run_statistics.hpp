// Statistics of a live run's steps: functions of the message KeptStatistics, the part of RunState
// that commits and rollbacks change. Times in seconds, unless a name says otherwise. Pure
// functions; thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/ids.hpp"
#include "live/control.pb.h"
#include "live/supervision.pb.h"
#include "traces/report.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// Number of last steps over which final_loss is averaged, because the loss of one step varies with
/// its text.
inline constexpr int kFinalLossSteps = 5;
/// Largest number of values in a sample of the step times. For example, after 2 million steps every
/// 128th value is stored, and the median of a month's steps is the median of those.
inline constexpr int kMostSampled = 16384;

/// Adds a committed step. The interval of the step counts from the last commit, or from 0 for the
/// first. `ranks`: ranks of the scenario; a lost rank waits, a slot that has no rank does not. The
/// reports of the commit hold at least one prediction in all; an empty report is of a slot without
/// a rank.
void add_commit(KeptStatistics& kept, const JournalCommit& commit, std::uint32_t ranks);
/// Records that the newest `steps` committed steps, at most all, are given up and will be repeated.
/// Their times and losses stay in the statistics.
void roll_back_steps(KeptStatistics& kept, std::uint64_t steps);
/// Writes the statistics into the report, and appends the intervals and losses of the first 10,000
/// commits. Writes only the numbers of committed and rolled back steps while no step is committed.
void fill_report(const KeptStatistics& kept, const Scenario& scenario, Report& report);

/// Returns the number of sequences in the committed steps, without those given up.
std::uint64_t sample_total(const KeptStatistics& kept);
/// Returns the mean loss of the newest step in nats per token; 0 before the first.
double newest_loss(const KeptStatistics& kept);

/// Returns the interval of the newest step; after 10,000 steps that of the newest step in the
/// sample; 0 before the first.
double newest_interval(const KeptStatistics& kept);

/// Returns the longest compute phase of a step, for which all other ranks wait, in nanoseconds; 0
/// without reports. `reports`: a range of StepReport.
template <class Reports>
Nanos slowest_compute(const Reports& reports) {
  Nanos most = 0;
  for (const StepReport& report : reports) most = std::max<Nanos>(most, report.compute());
  return most;
}

}  // namespace orrery::live

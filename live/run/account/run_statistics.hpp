// Statistics of a live run's steps. Times in seconds, unless a name says otherwise.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "live/control.pb.h"
#include "live/supervision.pb.h"
#include "traces/report.pb.h"
#include "traces/report/sample_count.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// Number of last steps over which final_loss is averaged, because the loss of one step varies with
/// its text.
inline constexpr std::size_t kFinalLossSteps = 5;

/// Evenly thinned sample of any number of values: all values at first, then every second, every
/// fourth, ... For example, after 2 million values every 128th value is stored, and the median of a
/// month's steps is the median of those.
class Sampled {
 public:
  /// Largest number of stored values.
  static constexpr std::size_t kMost = 16384;

  /// Adds a value, or drops it if the sample is thinned to values at other positions.
  void add(double value);
  /// Returns the median of the stored values, the mean of the middle two if their number is even; 0
  /// without values.
  double median() const;
  /// Writes the sample into `kept`, an empty message.
  void save_to(KeptSample& kept) const;
  /// Restores the sample from `kept`.
  void restore_from(const KeptSample& kept);

 private:
  std::uint64_t stride_ = 1, seen_ = 0;
  std::vector<double> values_;
};

/// Statistics of all committed steps; fills the report. Single-threaded.
class RunStatistics {
 public:
  /// Starts at zero. `scenario` must outlive this object.
  explicit RunStatistics(const Scenario& scenario) : scenario_(scenario) {}

  /// Records the commit of a step. `reports`: of all ranks, by slot, empty for slots without a
  /// rank, with at least one prediction in all; `samples`: sequences of the step, also those of
  /// ranks without a report; `now`: instant of the commit in nanoseconds. The interval counts from
  /// the last commit, or from 0 for the first.
  void record_commit(std::span<const StepReport> reports, std::uint64_t samples, Nanos now);
  /// Records that the newest `steps` committed steps, at most all, are given up and will be
  /// repeated. Their times and losses stay in the statistics.
  void roll_back(std::uint64_t steps);
  /// Writes the statistics into the report, and appends the intervals and losses of the first
  /// 10,000 commits. Writes only the numbers of committed and rolled back steps while steps() is 0.
  void fill(Report& report) const;

  /// Writes the statistics into `kept`, an empty message, for a successor of the controller.
  void save_to(KeptStatistics& kept) const;
  /// Restores the statistics from `kept`.
  void restore_from(const KeptStatistics& kept);

  /// Returns the number of committed steps, without those given up.
  std::uint64_t steps() const { return steps_; }
  /// Returns the number of sequences in those steps.
  std::uint64_t samples() const { return samples_.total(); }
  /// Returns the time of the newest commit in nanoseconds; 0 before the first.
  Nanos elapsed() const { return last_commit_; }
  /// Returns the mean loss of the newest step in nats per token; 0 before the first.
  double newest_loss() const { return last_losses_.empty() ? 0 : last_losses_.back(); }

 private:
  /// Adds the phases of one step's interval to the samples.
  void add_phases(std::span<const StepReport> reports, double interval);
  /// Returns the mean loss of the last kFinalLossSteps steps.
  double final_loss() const;

  const Scenario& scenario_;
  std::uint64_t steps_ = 0, rolled_back_ = 0;
  SampleCount samples_;
  Nanos last_commit_ = 0;
  /// Intervals and losses of the first steps.
  std::vector<double> listed_intervals_, listed_losses_;
  std::deque<double> last_losses_;
  /// Step intervals and their phases.
  Sampled intervals_, computes_, exchanges_, updates_, rests_;
  double compute_ = 0, waiting_ = 0;  ///< Sums over ranks and steps.
  double capacity_ = 0;  ///< Sum over steps: interval times ranks, at least those of the scenario.
  double gather_used_ = 0, gather_read_ = 0;  ///< Bytes.
};

}  // namespace orrery::live

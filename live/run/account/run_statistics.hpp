// What a live run adds up to: fed with every committed step, it fills the report. One thread.
// Seconds, unless a name says otherwise.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "live/control.pb.h"
#include "live/supervision.pb.h"
#include "traces/report.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// final_loss is the mean over this many last steps: one step's loss varies with its text.
inline constexpr std::size_t kFinalLossSteps = 5;

/// Of any number of values at most so many, evenly: all of them, then every second, fourth ... The
/// median of a month's steps is then that of one in a few hundred.
class Sampled {
 public:
  static constexpr std::size_t kMost = 16384;

  void add(double value);
  /// 0 without values.
  double median() const;
  void keep(KeptSample& kept) const;
  void restore(const KeptSample& kept);

 private:
  std::uint64_t stride_ = 1, seen_ = 0;
  std::vector<double> values_;
};

class RunStatistics {
 public:
  explicit RunStatistics(const Scenario& scenario) : scenario_(scenario) {}

  /// Reports of all ranks, by rank; `now` is the instant of the commit.
  void commit(std::span<const StepReport> reports, Nanos now);
  void fill(Report& report) const;

  /// To go on with in another process.
  void keep(KeptStatistics& kept) const;
  void restore(const KeptStatistics& kept);

  std::uint64_t steps() const { return steps_; }
  Nanos elapsed() const { return last_commit_; }
  /// Of the newest step; 0: none yet.
  double newest_loss() const { return last_losses_.empty() ? 0 : last_losses_.back(); }

 private:
  void add_phases(std::span<const StepReport> reports, double interval);
  double final_loss() const;

  const Scenario& scenario_;
  std::uint64_t steps_ = 0;
  Nanos last_commit_ = 0;
  std::vector<double> listed_intervals_, listed_losses_;  ///< of the first steps
  std::deque<double> last_losses_;
  Sampled intervals_, computes_, exchanges_, updates_, rests_;  ///< and parts of the intervals
  double compute_ = 0, waiting_ = 0;  ///< summed over ranks and steps
  double gather_used_ = 0, gather_read_ = 0;  ///< bytes
};

}  // namespace orrery::live

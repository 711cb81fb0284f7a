// What a live run adds up to: fed with every committed step, it fills the report. One thread.
// Seconds, unless a name says otherwise.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "live/control.pb.h"
#include "traces/report.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// final_loss is the mean over this many last steps: one step's loss varies with its text.
inline constexpr std::size_t kFinalLossSteps = 5;

class RunStatistics {
 public:
  explicit RunStatistics(const Scenario& scenario) : scenario_(scenario) {}

  /// Reports of all ranks, by rank; `now` is the instant of the commit.
  void commit(std::span<const StepReport> reports, Nanos now);
  void fill(Report& report) const;

  std::uint64_t steps() const { return steps_; }
  Nanos elapsed() const { return last_commit_; }

 private:
  void add_phases(std::span<const StepReport> reports, double interval);
  double final_loss() const;

  const Scenario& scenario_;
  std::uint64_t steps_ = 0;
  Nanos last_commit_ = 0;
  std::vector<double> intervals_, losses_;
  std::vector<double> computes_, exchanges_, updates_, rests_;  ///< parts of the intervals
  double compute_ = 0, waiting_ = 0;  ///< summed over ranks and steps
  double gather_used_ = 0, gather_read_ = 0;  ///< bytes
};

}  // namespace orrery::live

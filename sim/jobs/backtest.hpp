// Difference between a replay and the recorded history: the wait of each job before its first
// start, replayed and recorded, by size and by hour of arrival. Policies never see recorded starts.
// Called by sim/jobs/job_replay. One thread; seconds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/jobs/job_results.hpp"
#include "sim/jobs/recorded_use.hpp"

namespace orrery::sim {

/// Waits of a group of jobs with a recorded start.
struct BacktestRow {
  std::string by, key;  ///< "all", "size" or "hour"
  std::uint64_t jobs = 0;
  double recorded_wait_s = 0, replayed_wait_s = 0;  ///< means
  double difference_s = 0;  ///< mean absolute difference of replayed and recorded wait
  double within_minute = 0;  ///< fraction of jobs with at most 60 s difference
  /// fraction of jobs that waited over 60 s longer in the log than in the replay
  double longer_in_log = 0;
  /// Recorded wait after the replayed wait was over: mean seconds by the state of the log's cluster
  /// (sim/jobs/recorded_use).
  double full_s = 0, quota_s = 0, room_s = 0;
};

/// Comparison of replayed and recorded waits.
class Backtest {
 public:
  /// Constructs an empty comparison. `use` has all jobs of the log and must outlive this object.
  explicit Backtest(const RecordedUse& use) : use_(use) {}
  void add(const JobRow& row);
  /// Returns the rows: all jobs, then by hour, then by size; empty if no start was recorded.
  std::vector<BacktestRow> rows() const;

 private:
  struct Sum {
    std::uint64_t jobs = 0, near = 0, longer = 0;
    double recorded = 0, replayed = 0, difference = 0;
    double full = 0, quota = 0, room = 0;
  };
  const RecordedUse& use_;
  /// keyed by group, in the order of rows()
  std::map<std::pair<std::string, std::uint32_t>, Sum> sums_;
};

std::string backtest_csv(const std::vector<BacktestRow>& rows);

}  // namespace orrery::sim

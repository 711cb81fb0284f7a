// How far a replay is from what the log says really happened: the time each job waited before its
// first start, replayed beside recorded, by size and by hour of the day at which it came. Recorded
// starts are never shown to policies. Called by sim/jobs/job_replay. One thread; seconds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/jobs/job_results.hpp"
#include "sim/jobs/recorded_use.hpp"

namespace orrery::sim {

/// Jobs with something in common whose start was recorded.
struct BacktestRow {
  std::string by, key;  ///< "all", "size" or "hour"
  std::uint64_t jobs = 0;
  double recorded_wait_s = 0, replayed_wait_s = 0;  ///< means
  double difference_s = 0;                          ///< mean size of replayed minus recorded
  double within_minute = 0;                         ///< share of jobs at most 60 s off
  double longer_in_log = 0;  ///< share that waited over 60 s longer in the log than in the replay
  /// Where the log's wait went on when the replay's was over, mean seconds of it by what the log's
  /// cluster looked like (sim/jobs/recorded_use).
  double full_s = 0, quota_s = 0, room_s = 0;
};

class Backtest {
 public:
  /// `use` has all of the log's jobs, and outlives this.
  explicit Backtest(const RecordedUse& use) : use_(use) {}
  void add(const JobRow& row);
  /// All, then by hour, then by size; nothing if no start was recorded.
  std::vector<BacktestRow> rows() const;

 private:
  struct Sum {
    std::uint64_t jobs = 0, near = 0, longer = 0;
    double recorded = 0, replayed = 0, difference = 0;
    double full = 0, quota = 0, room = 0;
  };
  const RecordedUse& use_;
  std::map<std::pair<std::string, std::uint32_t>, Sum> sums_;  ///< in the order of rows()
};

std::string backtest_csv(const std::vector<BacktestRow>& rows);

}  // namespace orrery::sim

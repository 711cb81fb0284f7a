// Comparison of a replay with the recorded history: the wait of each job before its first start,
// replayed and recorded, by size of the job and by hour of its submission. Policies never see
// recorded starts. Called by sim/replay/job_replay. One thread; seconds of the log.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/schema/names.hpp"
#include "sim/replay/job_results.hpp"
#include "sim/replay/recorded_use.hpp"

namespace orrery::sim {

/// Kinds of groups of jobs, in the order of their rows: all jobs, the hour of the log's day in
/// which a job was submitted, and the size class of a job.
enum class BacktestGroup : std::uint8_t { all, hour, size };
constexpr std::array<std::string_view, 3> names_of(BacktestGroup) {
  return {"all", "hour", "size"};
}

/// Waits of one group of jobs: of the jobs that started both in the log and in the replay. Times
/// are seconds, means over the jobs of the group.
struct BacktestRow {
  BacktestGroup by{};
  std::string key;  ///< name of the group: "", the hour "00" to "23", or a class such as "5-8"
  std::uint64_t jobs = 0;
  double recorded_wait_s = 0, replayed_wait_s = 0;
  double difference_s = 0;   ///< absolute difference of replayed and recorded wait
  double within_minute = 0;  ///< fraction of jobs with at most 60 s difference
  /// fraction of jobs whose recorded wait exceeds the replayed wait by more than 60 s
  double longer_in_log = 0;
  /// part of the recorded wait after the job had started in the replay, by the obstacle in the
  /// log's cluster: too few free GPUs, quota of the virtual cluster, or neither
  /// (sim/replay/recorded_use)
  double full_s = 0, quota_s = 0, room_s = 0;
};

/// Comparison of replayed and recorded waits. For example, a job that was submitted at 100 s,
/// started at 400 s in the log and at 160 s in the replay, has a difference of 240 s.
class Backtest {
 public:
  /// Constructs an empty comparison. `use` must outlive this object.
  explicit Backtest(const RecordedUse& use) : use_(use) {}
  /// Adds a job to the groups of all jobs, of its size and of its hour; ignores a job without a
  /// recorded start at or after its submission, and a job that never started in the replay. Call
  /// when `use` holds all jobs.
  void add(const JobRow& row);
  /// Returns the rows: all jobs, then each hour, then each size class; empty if no job was added.
  std::vector<BacktestRow> rows() const;

 private:
  /// Sums over the jobs of a group: counts of jobs and seconds.
  struct Sum {
    std::uint64_t jobs = 0, near = 0, longer = 0;
    double recorded = 0, replayed = 0, difference = 0;
    double full = 0, quota = 0, room = 0;
  };
  const RecordedUse& use_;
  /// sums by group, in the order of rows(); a group is its kind and the most GPUs or the hour
  std::map<std::pair<BacktestGroup, std::uint32_t>, Sum> sums_;
};

/// Returns the rows as a CSV table with a header line.
std::string backtest_csv(const std::vector<BacktestRow>& rows);

}  // namespace orrery::sim

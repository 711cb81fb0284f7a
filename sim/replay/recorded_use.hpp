// Recorded use of a cluster: GPUs over time, of the whole cluster and of each virtual cluster, by
// the recorded starts of jobs. Explains the recorded waits of jobs. Called by sim/replay/backtest.
// One thread; seconds of the log.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "traces/jobs/job_trace.hpp"

namespace orrery::sim {

/// GPUs in use over time, by the log.
class RecordedUse {
 public:
  /// Parts of a stretch of time by the obstacle of a job in the log.
  struct Reasons {
    std::int64_t full_s = 0;   ///< fewer GPUs were free than the job needs
    std::int64_t quota_s = 0;  ///< else: its virtual cluster would have exceeded its highest use
    std::int64_t room_s = 0;   ///< else: reservations, priorities, failures, ...
  };

  /// Constructs an empty record. `gpus`: of the cluster.
  explicit RecordedUse(std::uint32_t gpus) : all_milli_(std::int64_t{gpus} * 1000) {}
  /// Adds a job; a job without a recorded start is ignored.
  void add(const TraceJob& job);
  /// Returns the reasons for the wait of a job from `begin` to `end`. Call after all jobs have been
  /// added; later jobs would not be counted correctly. All 0 if `end` is not after `begin`. `job`
  /// need not have been added. O(log jobs + starts and ends in between).
  Reasons reasons(const TraceJob& job, std::int64_t begin, std::int64_t end) const;

 private:
  /// Number of GPUs in use from an instant on.
  struct Use {
    std::map<std::int64_t, std::int64_t> changes;
    /// ascending; computed at the first use
    std::vector<std::pair<std::int64_t, std::int64_t>> steps;
    std::int64_t most = 0;

    void settle_steps();
    std::size_t at(std::int64_t second) const;
    std::int64_t used_before(std::size_t step) const {
      return step == 0 ? 0 : steps[step - 1].second;
    }
    std::int64_t until(std::size_t step) const;
  };

  std::int64_t all_milli_;  ///< thousandths of the GPUs of the cluster
  mutable Use all_;
  mutable std::map<std::string, Use> by_vc_;
};

}  // namespace orrery::sim

// What the log says was in use: GPUs over time, of the whole cluster and of each virtual cluster,
// by the recorded starts of its jobs. Tells what a job's wait looked like then, and so what a
// replay does not have. Called by sim/jobs/backtest. One thread; seconds of the log.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "traces/jobs/job_trace.hpp"

namespace orrery::sim {

class RecordedUse {
 public:
  /// A stretch of time by what stood in a job's way in the log.
  struct Reasons {
    std::int64_t full_s = 0;   ///< fewer GPUs were free than it needs
    std::int64_t quota_s = 0;  ///< else: its virtual cluster would have had more than ever before
    std::int64_t room_s = 0;   ///< else: neither; reservations, priorities, failures, ...
  };

  /// `gpus`: of the cluster.
  explicit RecordedUse(std::uint32_t gpus) : gpus_(gpus) {}
  /// Jobs whose start was recorded; others are not known.
  void add(const TraceJob& job);
  /// After all have been added; from `begin` to `end`. O(log jobs + starts and ends in between).
  Reasons reasons(const TraceJob& job, std::int64_t begin, std::int64_t end) const;

 private:
  /// How many GPUs are in use from an instant on.
  struct Use {
    std::map<std::int64_t, std::int64_t> changes;
    std::vector<std::pair<std::int64_t, std::int64_t>> steps;  ///< ascending; made at once
    std::int64_t most = 0;

    void settle();
    std::size_t at(std::int64_t second) const;
    std::int64_t used(std::size_t step) const { return step == 0 ? 0 : steps[step - 1].second; }
    std::int64_t until(std::size_t step) const;
  };

  std::uint32_t gpus_;
  mutable Use all_;
  mutable std::map<std::string, Use> by_vc_;
};

}  // namespace orrery::sim

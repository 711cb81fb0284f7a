// When running jobs are expected to end, by their estimates: what backfill plans with. A job that
// has outlived its estimate is expected to run as long again as it has. One thread; nanoseconds of
// the policy clock.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>

#include "core/ids.hpp"

namespace orrery {

class ExpectedEnds {
 public:
  struct End {
    Nanos at = 0;
    std::uint32_t gpus = 0;
    JobId job;
    friend auto operator<=>(const End&, const End&) = default;
  };

  /// It runs since `since`; said again, it began anew.
  void begin(JobId job, std::uint32_t gpus, Nanos since, Nanos estimate);
  /// The end that was expected; kNever for a job that does not run.
  Nanos end(JobId job);
  void clear();
  /// Jobs that should have ended before `now` are given more time. True if there were any.
  bool extend(Nanos now);
  /// By end, then GPUs, then job.
  const std::set<End>& in_order() const { return ends_; }

 private:
  struct Run {
    Nanos since = 0;
    End end;
  };
  std::set<End> ends_;
  std::map<JobId, Run> runs_;
};

}  // namespace orrery

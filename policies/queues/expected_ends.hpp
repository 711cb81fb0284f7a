// Expected ends of running jobs, by their estimates, for backfill. A job that has outlived its
// estimate is expected to run as long again as it has. One thread; nanoseconds of the policy clock.
#pragma once

#include <compare>
#include <cstdint>
#include <set>

#include "core/ids.hpp"
#include "core/tables/id_table.hpp"

namespace orrery {

/// Expected ends in ascending order. For example, a job of estimate 1 h that has run 90 minutes is
/// expected to end after 180 minutes.
class ExpectedEnds {
 public:
  struct End {
    Nanos at = 0;
    std::uint32_t gpus = 0;
    JobId job;
    friend auto operator<=>(const End&, const End&) = default;
  };

  /// Records that a job runs on `gpus` GPUs since `since` and is expected to end at `since` +
  /// `estimate`. A repeated call with another `since` records a new start; with the same `since` it
  /// changes nothing.
  void record_start(JobId job, std::uint32_t gpus, Nanos since, Nanos estimate);
  /// Removes a job and returns the end that was expected of it; kNever, and no effect, for a job
  /// that does not run.
  Nanos remove_job(JobId job);
  /// Removes all jobs.
  void clear();
  /// Moves the ends of jobs that should have ended before `now`: each is expected to run, from
  /// `now` on, as long again as it has, at least 1 s. Returns true if any end was moved.
  bool extend_overdue(Nanos now);
  /// Returns the ends in order of end, then GPUs, then job; overdue ends stay until
  /// extend_overdue().
  const std::set<End>& in_order() const { return ends_; }

 private:
  struct Run {
    Nanos since = 0;
    End end;
  };
  std::set<End> ends_;
  IdTable<Run> runs_;
};

}  // namespace orrery

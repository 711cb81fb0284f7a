// Jobs of a recorded log in order of submission, numbered in that order, and the position in the
// log. A job larger than the cluster has no number and is never submitted. Used by
// live/jobs/local_jobs. One thread; nanoseconds of the log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::live {

/// Numbered jobs of a log and the next submission.
class Submissions {
 public:
  /// Numbers the jobs that fit from 0, in order of submission; jobs of one second in the given
  /// order. `gpus`: number of GPUs of the cluster.
  Submissions(std::vector<TraceJob> jobs, std::uint32_t gpus);

  /// Returns all jobs in the given order.
  const std::vector<TraceJob>& jobs() const { return jobs_; }
  /// Returns true if the job at `index` in jobs(), below its size, needs no more GPUs than the
  /// cluster has.
  bool fits(std::size_t index) const { return jobs_[index].gpus <= gpus_; }
  /// Returns the index in jobs() of job `number`, which must be below count().
  std::size_t index(std::uint32_t number) const { return order_[number]; }
  /// Returns job `number`, which must be below count().
  const TraceJob& job(std::uint32_t number) const { return jobs_[order_[number]]; }

  /// Returns the number of numbered jobs, submitted or not.
  std::size_t count() const { return order_.size(); }
  /// Returns true if take_next() has returned all numbered jobs, also if there are none.
  bool has_submitted_all() const { return came_ == order_.size(); }
  /// Returns the instant of the next submission, which may be past; kNever if none follows.
  Nanos next() const;
  /// Returns the number of the next job, if its submission is at `now` or before, and moves on to
  /// the job after it. Returns nothing, without effect, if the next submission is later or none
  /// follows. Call until nothing is returned: several jobs may be due.
  std::optional<std::uint32_t> take_next(Nanos now);

 private:
  const std::vector<TraceJob> jobs_;
  const std::uint32_t gpus_;
  std::vector<std::size_t> order_;  ///< indexed by number
  std::uint32_t came_ = 0;
};

}  // namespace orrery::live

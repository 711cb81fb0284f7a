// The jobs of a recorded log in the order in which they were submitted, numbered so, and how far
// the log has got. What would never fit the cluster has no number: it never comes. Used by
// live/jobs/local_jobs. One thread; nanoseconds of the log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::live {

class Submissions {
 public:
  /// `gpus`: of the cluster.
  Submissions(std::vector<TraceJob> jobs, std::uint32_t gpus);

  /// In the order in which they were given, whether they fit or not.
  const std::vector<TraceJob>& jobs() const { return jobs_; }
  bool fits(std::size_t index) const { return jobs_[index].gpus <= gpus_; }
  /// Of job `number` in jobs().
  std::size_t index(std::uint32_t number) const { return order_[number]; }
  const TraceJob& job(std::uint32_t number) const { return jobs_[order_[number]]; }

  /// How many have a number.
  std::size_t count() const { return order_.size(); }
  bool all_came() const { return came_ == order_.size(); }
  /// When the next one comes; kNever: all have.
  Nanos next() const;
  /// The next one, if it has come by then.
  std::optional<std::uint32_t> take(Nanos now);

 private:
  const std::vector<TraceJob> jobs_;
  const std::uint32_t gpus_;
  std::vector<std::size_t> order_;  ///< by number
  std::uint32_t came_ = 0;
};

}  // namespace orrery::live

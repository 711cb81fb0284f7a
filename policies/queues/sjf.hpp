// Shortest job first: the job queue by total duration, ties in order of submission; the first job
// that cannot be placed blocks the rest. A job of unknown duration counts as the shortest.
#pragma once

#include <set>
#include <utility>

#include "policies/queues/strict_queue.hpp"

namespace orrery {

/// Queue policy that starts the shortest job first.
class SjfPolicy : public StrictQueue {
 public:
  /// Writes size and digest of the queue; the queue itself is rebuilt from the waiting jobs at the
  /// first observation after load().
  void save(Archive& archive) const override;
  /// Rebuilds the queue at the next observation. Throws bad_input for bytes without a space; other
  /// bytes are not checked.
  void load(const Archive& archive) override;

 protected:
  const char* reason() const override { return "shortest first"; }
  void queue_up(const JobSpec& job) override;
  void drop_job(const JobSpec& job) override;
  std::optional<JobId> head(const JobTable& jobs) override;
  void clear() override;

 private:
  using Place = std::pair<Nanos, JobId>;
  std::set<Place> queue_;
  std::uint64_t digest_ = 0;  ///< exclusive or over the queued jobs
};

}  // namespace orrery

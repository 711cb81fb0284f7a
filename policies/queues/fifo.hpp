// First come, first served: the job queue in order of submission; the first job that cannot be
// placed blocks the rest.
#pragma once

#include "policies/queues/strict_queue.hpp"

namespace orrery {

/// Queue policy whose queue is the waiting jobs of the table from a cursor on; no job before the
/// cursor waits.
class FifoPolicy : public StrictQueue {
 public:
  /// Appends the cursor as a decimal number.
  void save(Archive& archive) const override;
  /// Restores the cursor; the queue itself is the job table. Throws bad_input for bytes that are
  /// not one decimal number.
  void load(const Archive& archive) override;

 protected:
  const char* reason() const override { return "first in line"; }
  void queue_up(const JobSpec& job) override;
  void drop_job(const JobSpec& job) override;
  std::optional<JobId> head(const JobTable& jobs) override;
  void clear() override { cursor_ = 0; }

 private:
  std::uint32_t cursor_ = 0;
};

}  // namespace orrery

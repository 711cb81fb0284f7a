// Common part of both backfill policies: the waiting jobs in order of submission and the expected
// ends of the running jobs. Base of easy and conservative. One thread.
#pragma once

#include "policies/queues/expected_ends.hpp"
#include "policies/queues/waiting_line.hpp"

namespace orrery {

/// Queue policy with expected ends of running jobs.
class BackfillPolicy : public WaitingLine {
 protected:
  void enter_queue(const JobInfo& job, Nanos now) override;
  void run(const JobInfo& job, Nanos since) override;
  void remove_job(const JobInfo& job) override;
  void clear() override;

  /// Starts a job as WaitingLine::begin() does, and records its end by its estimate.
  void begin_at(Nanos now, const JobSpec& job, GpuRuns gpus, const char* why,
                DecisionList& decisions);
  /// Returns the expected ends of the running jobs.
  ExpectedEnds& ends() { return ends_; }

 private:
  ExpectedEnds ends_;
};

}  // namespace orrery

// What both kinds of backfill share: the waiting jobs in order of submission, and when the running
// ones are expected to end. Base of easy and conservative. One thread, as every policy.
#pragma once

#include "policies/scheduling/expected_ends.hpp"
#include "policies/scheduling/waiting_line.hpp"

namespace orrery {

class BackfillPolicy : public WaitingLine {
 protected:
  void enter(const JobInfo& job, Nanos now) override;
  void run(const JobInfo& job, Nanos since) override;
  void leave(const JobInfo& job) override;
  void clear() override;

  /// As begin(); it is expected to end when its estimate is over.
  void begin_at(Nanos now, const JobSpec& job, GpuRuns gpus, const char* why,
                DecisionList& decisions);
  ExpectedEnds& ends() { return ends_; }

 private:
  ExpectedEnds ends_;
};

}  // namespace orrery

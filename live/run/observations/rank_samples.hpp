// Telemetry as the policies of a live run read it: ranks by their number in the job, only those
// that it counts on; nothing is taken before it is asked for. What was read is noted for the
// journal, so that another controller can show the same. One thread.
#pragma once

#include <utility>

#include "live/run/observations/policy_clock.hpp"
#include "live/run/observations/telemetry.hpp"
#include "live/run/processes/placement.hpp"
#include "live/supervision.pb.h"
#include "policies/record/encoding.hpp"

namespace orrery::live {

class RankSamples : public SamplesBook {
 public:
  /// All three outlive this.
  RankSamples(Telemetry& telemetry, const Placement& placement, const PolicyClock& clock)
      : telemetry_(telemetry), placement_(placement), clock_(clock) {}

  /// Another observation: what is read from now on is of this instant.
  void begin();
  /// What has been read since the last call.
  JournalRead take_read() { return std::exchange(read_, {}); }

 private:
  class Numbered;
  void fetch(const SamplesRead& wish) override;

  Telemetry& telemetry_;
  const Placement& placement_;
  const PolicyClock& clock_;
  JournalRead read_;
  bool taken_ = false;
};

}  // namespace orrery::live

// Telemetry as the policies of a live run read it.
#pragma once

#include <utility>

#include "live/run/observations/policy_clock.hpp"
#include "live/run/observations/telemetry.hpp"
#include "live/run/processes/placement.hpp"
#include "live/supervision.pb.h"
#include "policies/record/encoding.hpp"
#include "policies/record/samples_book.hpp"

namespace orrery::live {

/// Samples of the ranks that the job uses, numbered as in the job; samples of GPUs, links and
/// collectives are those of Telemetry. No sample is collected before a policy reads it; call reads
/// of ranks only while the world holds the job (Placement::is_submitted()). Records all reads for
/// the journal, so that a successor of the controller can replay them. Single-threaded.
class RankSamples : public SamplesBook {
 public:
  /// Starts without samples. All references must outlive this object.
  RankSamples(Telemetry& telemetry, const Placement& placement, const PolicyClock& clock)
      : telemetry_(telemetry), placement_(placement), clock_(clock) {}

  /// Begins another observation: discards all samples; the first read of the observation collects
  /// the values that are new at that instant (Telemetry::refresh_samples()). Reads stay recorded
  /// for take_read().
  void begin();
  /// Returns the reads since the last call; an empty message if none.
  JournalRead take_read() { return std::exchange(read_, {}); }

 private:
  class Numbered;
  void fetch_samples(const SamplesRead& wish) override;

  Telemetry& telemetry_;
  const Placement& placement_;
  const PolicyClock& clock_;
  JournalRead read_;
  bool taken_ = false;
};

}  // namespace orrery::live

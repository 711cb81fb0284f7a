// What the policies of a live run are shown, one observation after the other: events that have
// happened since the last one, in their order, each applied to the world when it happened. Every
// observation is in the journal before a policy sees it, and what was read of telemetry with it
// afterwards. Called by the live backend; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "live/run/journal.hpp"
#include "live/run/rank_samples.hpp"
#include "policies/seam/world.hpp"

namespace orrery::live {

class Observations {
 public:
  /// All outlive this.
  Observations(World& world, const Placement& placement, const PolicyClock& clock,
               Telemetry& telemetry, Journal& journal)
      : world_(world), clock_(clock), journal_(journal), samples_(telemetry, placement, clock) {}

  /// Now: it holds in the world, and is shown with the next observation.
  void happen(Event event);
  /// Something has happened that no policy has been shown.
  bool waiting() const { return !arriving_.empty(); }
  /// All of it; valid until the next call. `losses`: that have changed, for the journal.
  Observation make(const std::vector<JournalLoss>& losses);
  /// The policies have answered the newest one.
  void answered();

  /// Of the next one, counted from 0 over the whole run.
  std::uint64_t sequence() const { return sequence_; }
  void go_on_at(std::uint64_t sequence) { sequence_ = sequence; }

 private:
  World& world_;
  const PolicyClock& clock_;
  Journal& journal_;
  std::uint64_t sequence_ = 0;
  std::vector<Event> arriving_;  ///< of the next one
  std::vector<Event> events_;    ///< of the newest one
  RankSamples samples_;
};

}  // namespace orrery::live

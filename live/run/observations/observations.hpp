// What the policies of a live run are shown, one observation after the other: events that have
// happened since the last one, in their order, each applied to the world when it happened. Every
// observation is in the journal before a policy sees it, and what was read of telemetry with it
// afterwards. Called by the live backend; one thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "live/run/files/journal.hpp"
#include "live/run/observations/rank_samples.hpp"
#include "policies/seam/world.hpp"

namespace orrery::live {

class Observations {
 public:
  /// All but `telemetry` outlive this.
  Observations(World& world, const Placement& placement, const PolicyClock& clock,
               Telemetry telemetry, Journal& journal)
      : world_(world),
        clock_(clock),
        journal_(journal),
        telemetry_(std::move(telemetry)),
        samples_(telemetry_, placement, clock) {}
  Observations(const Observations&) = delete;
  Observations& operator=(const Observations&) = delete;

  /// Now: it holds in the world, and is shown with the next observation.
  void happen(Event event);
  /// Something has happened that no policy has been shown.
  bool waiting() const { return !arriving_.empty(); }
  /// All of it; valid until the next call. `losses`: that have changed, for the journal.
  Observation make(const std::vector<JournalLoss>& losses);
  /// The policies have answered the newest one.
  void answered();

  const World& world() const { return world_; }
  /// What the ranks report, which policies may read.
  Telemetry& telemetry() { return telemetry_; }
  const Telemetry& telemetry() const { return telemetry_; }

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
  Telemetry telemetry_;
  RankSamples samples_;
};

}  // namespace orrery::live

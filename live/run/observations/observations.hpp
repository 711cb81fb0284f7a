// Observations of a live run for its policies.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "live/run/files/journal.hpp"
#include "live/run/observations/rank_samples.hpp"
#include "policies/seam/world.hpp"

namespace orrery::live {

/// Source of the observations. Each observation holds the events since the last observation, in
/// their order; each event is applied to the world when it occurs. An observation is written to the
/// journal before a policy sees it, and the policies' answer, with the telemetry that they read, is
/// written before it has an effect. Used by the live backend; single-threaded.
class Observations {
 public:
  /// Starts without events. All references must outlive this object.
  Observations(World& world, const Placement& placement, const PolicyClock& clock,
               Telemetry telemetry, Journal& journal)
      : world_(world),
        clock_(clock),
        journal_(journal),
        telemetry_(std::move(telemetry)),
        samples_(telemetry_, placement, clock) {}
  Observations(const Observations&) = delete;
  Observations& operator=(const Observations&) = delete;

  /// Applies the event to the world at the current instant, and adds the event to the next
  /// observation. Throws an internal Error, and adds nothing, for an event that is impossible
  /// (World::objection()).
  void add_event(Event event);
  /// Returns true if an event has not been shown to the policies yet.
  bool has_pending() const { return !arriving_.empty(); }
  /// Writes the next observation, with all pending events (perhaps none), and `losses`, the changed
  /// losses, to the journal. Discards the samples of the last observation. Returns the observation,
  /// which is valid until the next call; its number is that of the journal's state, which then
  /// grows by one.
  Observation next_observation(const std::vector<JournalLoss>& losses);
  /// Records the policies' answer to the newest observation: writes the decisions, the wake-up
  /// times and the telemetry that they have read since the last call to the journal, if any.
  void record_answer(const DecisionList& decisions);

  /// Returns the world.
  const World& world() const { return world_; }
  /// Returns the telemetry of the ranks, which policies may read.
  Telemetry& telemetry() { return telemetry_; }
  const Telemetry& telemetry() const { return telemetry_; }

 private:
  World& world_;
  const PolicyClock& clock_;
  Journal& journal_;
  std::vector<Event> arriving_;  ///< Events of the next observation.
  std::vector<Event> events_;    ///< Events of the newest observation.
  Telemetry telemetry_;
  RankSamples samples_;
};

}  // namespace orrery::live

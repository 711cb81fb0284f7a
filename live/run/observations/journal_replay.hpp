// What an earlier controller has shown the policies, shown once more from its journal: they are
// deterministic, so they come to the state in which it died. Knows what was left open then, which
// its successor has to make up for. Called by the live backend; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "live/run/files/journal.hpp"
#include "policies/record/encoding.hpp"

namespace orrery::live {

class JournalReplay {
 public:
  /// `past` outlives this. Behind a snapshot all stands as if what was shown before it had just
  /// been shown again.
  JournalReplay(const Cluster& cluster, const Past& past)
      : past_(past), reader_(cluster), under_way_(past.snapshot.has_value()) {}

  /// Follows what is shown, and is the run's afterwards.
  World& world() { return reader_.world(); }

  /// There is an observation that has not been shown again.
  bool more() const { return shown_ < past_.seen.size(); }
  /// With the telemetry that was read then; valid until the next call.
  Observation next();
  /// The newest observation was one of those.
  bool under_way() const { return under_way_; }
  /// What the policies have answered it. It has been decided, and told, by the earlier controller's
  /// time; only what had no outcome yet is left open.
  void answered(const DecisionList& decisions);
  /// Whether the kill switch counted as on.
  bool halted() const;

  /// All has been shown: whatever happens from now on is new. False if nothing was.
  bool finish() { return std::exchange(under_way_, false); }
  /// Decisions without an outcome, by their number.
  std::vector<Decision> take_open();
  /// Committed steps whose end no policy has seen.
  std::vector<StepsDone> unseen_steps() const;

 private:
  const Past& past_;
  ObservationReader reader_;
  SamplesBook samples_;
  std::size_t shown_ = 0;
  bool under_way_;
  std::map<DecisionId, Decision> open_;
  std::size_t steps_seen_ = 0;
};

}  // namespace orrery::live

// Checkpoint events for the policies.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "live/run/checkpoints/run_checkpoints.hpp"
#include "policies/seam/event.hpp"

namespace orrery::live {

/// Source of the checkpoint events that policies see: a checkpoint has become durable or has
/// failed, and its duration since the commit that it follows. Used by the step driver;
/// single-threaded. Instants are times of the policy clock.
class SaveEvents {
 public:
  /// Starts without events. `checkpoints` must outlive this object.
  explicit SaveEvents(RunCheckpoints& checkpoints) : checkpoints_(checkpoints) {}

  /// Records that the newest planned step is final at `now`; `next` is the step after it. The
  /// step's checkpoint begins, if one was planned: calls RunCheckpoints::on_commit(). Otherwise no
  /// effect.
  void on_commit(Step next, Nanos now);
  /// Returns one event for each checkpoint that has become durable or failed since the last call,
  /// oldest first; empty if none. Calls RunCheckpoints::drain_outcomes(). The duration, until
  /// `now`, is 0 if no on_commit() of this object began the attempt, for example for a retry.
  std::vector<SaveDone> drain_events(Nanos now);

 private:
  RunCheckpoints& checkpoints_;
  /// Start of each attempt, by tier and the step that follows its checkpoint.
  std::map<std::pair<Tier, Step>, Nanos> since_;
};

}  // namespace orrery::live

// Checkpoint events for the policies.
#pragma once

#include <map>
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

  /// Records that the newest planned step is final; `next` is the step after it. The step's
  /// checkpoint begins, if one was planned: calls RunCheckpoints::on_commit().
  void on_commit(Step next, Nanos now);
  /// Returns the events since the last call. The duration is 0 if no on_commit() of this object
  /// began the attempt, for example for a retry.
  std::vector<SaveDone> drain_events(Nanos now);

 private:
  RunCheckpoints& checkpoints_;
  /// Start of each attempt, by the step that follows its checkpoint.
  std::map<Step, Nanos> since_;
};

}  // namespace orrery::live

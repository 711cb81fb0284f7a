// What policies are told of checkpoints: that one has become durable or has failed, and how long it
// took from the commit that it follows. Called by the step driver; one thread. Instants are the
// policy clock's.
#pragma once

#include <map>
#include <vector>

#include "live/run/checkpoints/run_checkpoints.hpp"
#include "policies/seam/event.hpp"

namespace orrery::live {

class SaveEvents {
 public:
  explicit SaveEvents(RunCheckpoints& checkpoints) : checkpoints_(checkpoints) {}

  /// The step that was planned last is final, `next` is the one after it: its checkpoint begins, if
  /// the plan said so.
  void committed(Step next, Nanos now);
  /// Since the last call.
  std::vector<SaveDone> take(Nanos now);

 private:
  RunCheckpoints& checkpoints_;
  std::map<Step, Nanos> since_;  ///< by the step that goes on from it
};

}  // namespace orrery::live

// The other side of the seam: something that can be observed and acted upon. Implementations:
// sim/sim_backend (SimGrid), sim/job_replay (an event queue), live/live_backend (real processes),
// policies/replay (a recorded log). Decorators round any of them: policies/recorder.
// One thread calls it, the one that runs drive().
#pragma once

#include <optional>
#include <span>

#include "policies/policy.hpp"

namespace orrery {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Capabilities capabilities() const = 0;
  virtual const Cluster& cluster() const = 0;
  /// Called once, before the first next(): what will be read, and how often ticks are wanted.
  virtual void begin(const Needs& needs) = 0;
  /// Blocks until the next instant at which something happened; nothing at the end. The
  /// observation's views stay valid until the next call of next().
  virtual std::optional<Observation> next() = 0;
  /// Takes the decisions of the last observation; returns at once. Every decision gets exactly
  /// one DecisionOutcome event later. `at_rest`: see DecisionList::rest.
  virtual void apply(std::span<const Decision> decisions, bool at_rest) = 0;
};

}  // namespace orrery

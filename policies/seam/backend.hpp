// The other side of the seam: something that can be observed and acted upon. Implementations:
// sim/world/sim_backend (a simulated world), live/run/live_backend (real processes), record/replay
// (a recorded log). Decorators round any of them: record/recorder, handover/hand_over. What every
// backend does with a decision is one component, seam/gate. One thread calls it, the one that runs
// drive().
#pragma once

#include <optional>

#include "policies/seam/policy.hpp"

namespace orrery {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Capabilities capabilities() const = 0;
  virtual const Cluster& cluster() const = 0;
  /// Called once, before the first next(): what will be decided, and how often ticks are wanted.
  virtual void begin(const Needs& needs) = 0;
  /// Blocks until the next instant at which something happened; nothing at the end. The
  /// observation's views stay valid until the next call of next().
  virtual std::optional<Observation> next() = 0;
  /// Takes what was decided on the last observation; returns at once. Every decision gets exactly
  /// one Decided event later.
  virtual void apply(const DecisionList& decisions) = 0;
  /// Asked once, after begin(): how many decisions were taken before, whose ids are used.
  virtual DecisionId decided_before() const { return 0; }
};

}  // namespace orrery

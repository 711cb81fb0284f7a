// Interface of the worlds in which policies run. Implementations: sim/world/sim_backend (a
// simulated world), live/run/live_backend (a training job of real processes), live/jobs/local_jobs
// (a job log as real processes), run/replay (a recorded log). Decorators of any backend:
// record/recorder, handover/hand_over. In a simulated and in a live world, seam/gate judges every
// decision. All calls come from the thread that runs drive().
#pragma once

#include <optional>

#include "policies/seam/policy.hpp"

namespace orrery {

/// World in which a run happens: simulated, live or replayed. drive() calls begin() once, then
/// next() and apply() in turn until next() returns nothing. Not thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  /// Returns the features of this run that policies can rely on.
  virtual Capabilities capabilities() const = 0;
  /// Returns the cluster of the run; valid as long as the backend.
  virtual const Cluster& cluster() const = 0;
  /// Starts the run. Called before the first next(); called again only if other policies take over
  /// (run/futures.hpp). `needs`: the actions, settings and ticks that the policies declare.
  virtual void begin(const Needs& needs) = 0;
  /// Blocks until the next instant with an event, a tick or a wake-up, and returns its observation;
  /// nothing at the end of the run. The observation's views are valid until the next call of
  /// next().
  virtual std::optional<Observation> next() = 0;
  /// Accepts the decisions on the last observation; does not wait for their effects. Call once for
  /// each observation. Every decision gets exactly one Decided event later, unless the run ends
  /// before.
  virtual void apply(const DecisionList& decisions) = 0;
  /// Returns the id after the highest one of the run's decisions that the backend knows, those of
  /// an earlier process included; a new decision has this id or a higher one. Called after begin(),
  /// before each call of the policy.
  virtual DecisionId decided_before() const { return 0; }
};

}  // namespace orrery

// Events, as policies see them and as World applies them: effects, never intentions. Plain values.
// A new kind is a struct and an alternative of Event, its message in trace.proto, and its effect in
// world_events.cpp; its Python name follows from the message.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "policies/seam/job.hpp"
#include "topologies/part.hpp"

namespace orrery {

// ---- hardware -----------------------------------------------------------------------------

enum class Health : std::uint8_t { ok, suspected, lost };
/// State of one part. `rate`: fraction of the data sheet's speed (compute or bandwidth) that
/// remains, if known.
struct PartState {
  Health health = Health::ok;
  double rate = 1;
  Nanos since = 0;  ///< set by World
  /// Returns true if the part works as its data sheet says.
  bool is_nominal() const { return health == Health::ok && rate == 1; }
};

// ---- events -------------------------------------------------------------------------------

/// Completion of `count` steps, the newest of which is `last`, in `duration` together. A live run
/// reports one step at a time; a simulation reports as many as no policy needed to see separately.
struct StepsDone {
  JobId job;
  Step last = 0;
  std::uint64_t count = 1;
  Nanos duration = 0;
};
enum class Ending : std::uint8_t { completed, failed, cancelled };
/// End of a job.
struct JobDone {
  JobId job;
  Ending how{};
};
/// Result of a checkpoint: training can continue with `step` from it if it is `durable`, otherwise
/// it failed. Training was stalled for `stalled`; the copy was complete after `took`.
struct SaveDone {
  JobId job;
  Step step = 0;
  Tier tier{};
  Nanos stalled = 0, took = 0;
  bool durable = true;
};
/// Change of the state of a part.
struct PartChanged {
  Part part;
  PartState to;
};
/// Ranks without a recent heartbeat: the complete list. A rank that was in the previous list and is
/// not in this one has been heard again.
struct RanksSuspected {
  JobId job;
  std::vector<RankId> ranks;
};
/// All ranks of a job that were lost at one instant. The other ranks continue in `epoch` if the
/// job's OnLoss says so: they take over the micro-batches of the lost replicas, and shares
/// announced for later steps become invalid.
struct RanksLost {
  JobId job;
  std::vector<RankId> ranks;
  Epoch epoch;
};
/// Stop of a job after a loss, until it is assigned again.
struct JobHeld {
  JobId job;
};
/// Release of the GPUs of a job, which would continue with step `kept`.
struct JobStopped {
  JobId job;
  Step kept = 0;
};
/// Completion of an assignment: the job's placement and the step with which it continues.
struct JobStarted {
  JobId job;
  Epoch epoch;
  Step from = 0;
  Standing where;
};
/// Arrival of a new job.
struct JobSubmitted {
  JobSpec job;
};
enum class Outcome : std::uint8_t { applied, rejected, expired };
/// Outcome of a decision. Applied means that the decision is valid from its step on; the placement
/// itself changes with JobStarted or JobStopped.
struct Decided {
  std::uint64_t decision = 0;
  Outcome status{};
  std::string reason;
};
/// Change of a policy's parameter by the operator, with the names and the text of the scenario.
struct ParameterSet {
  std::string policy, parameter, value;
};
/// Call at an instant without another event.
struct Tick {};

/// The order of the alternatives is the order of the events of one instant: ends, faults, arrivals,
/// decisions, and the changes that decisions have caused.
using Event = std::variant<StepsDone, JobDone, SaveDone, PartChanged, RanksSuspected, RanksLost,
                           JobHeld, JobSubmitted, Decided, JobStopped, JobStarted, ParameterSet,
                           Tick>;

}  // namespace orrery

// What can happen, as policies see it and as World takes it: effects, never intentions. Plain
// values. A new kind is a struct and a place in Event, its message in trace.proto, and its effect
// in world_events.cpp; names in Python follow from the message.
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
/// `rate`: share of the data sheet's (compute, bandwidth) that is left, where it is known.
struct PartState {
  Health health = Health::ok;
  double rate = 1;
  Nanos since = 0;  ///< set by World
  bool nominal() const { return health == Health::ok && rate == 1; }
};

// ---- events -------------------------------------------------------------------------------

/// `count` steps up to and with `last`, which took `duration` together: one in a live run, as many
/// as nobody needed to see in a simulation.
struct StepsDone {
  JobId job;
  Step last = 0;
  std::uint64_t count = 1;
  Nanos duration = 0;
};
enum class Ending : std::uint8_t { completed, failed, cancelled };
struct JobDone {
  JobId job;
  Ending how{};
};
/// A checkpoint from which `step` is the first to be done; not `durable`: it failed. Training stood
/// still for `stalled`, the copy was there after `took`.
struct SaveDone {
  JobId job;
  Step step = 0;
  Tier tier{};
  Nanos stalled = 0, took = 0;
  bool durable = true;
};
struct PartChanged {
  Part part;
  PartState to;
};
/// Not heard of for a while; those named before and not now have been heard of again.
struct RanksSuspected {
  JobId job;
  std::vector<RankId> ranks;
};
/// All that were lost at one instant. The others go on in `epoch` if the job's OnLoss says so:
/// the lost replicas' micro-batches go to them, shares announced for later are void.
struct RanksLost {
  JobId job;
  std::vector<RankId> ranks;
  Epoch epoch;
};
/// It stands still after a loss, until it is assigned anew.
struct JobHeld {
  JobId job;
};
/// It has left its GPUs, and would go on from step `kept`.
struct JobStopped {
  JobId job;
  Step kept = 0;
};
/// An assignment has come true: where it stands now, and the step that it goes on with.
struct JobStarted {
  JobId job;
  Epoch epoch;
  Step from = 0;
  Standing where;
};
struct JobSubmitted {
  JobSpec job;
};
enum class Outcome : std::uint8_t { applied, rejected, expired };
/// What became of a decision. Applied is: it holds, from its step on; where a job stands changes
/// with JobStarted or JobStopped, when it has changed.
struct Decided {
  std::uint64_t decision = 0;
  Outcome status{};
  std::string reason;
};
/// The operator has set a policy's parameter, by its names and as its text in the scenario.
struct ParameterSet {
  std::string policy, parameter, value;
};
struct Tick {};

/// The order is that among events of one instant: what ended, what broke, what came, what was
/// decided, what that has changed.
using Event = std::variant<StepsDone, JobDone, SaveDone, PartChanged, RanksSuspected, RanksLost,
                           JobHeld, JobSubmitted, Decided, JobStopped, JobStarted, ParameterSet,
                           Tick>;

}  // namespace orrery

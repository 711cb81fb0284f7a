// Events, as policies see them and as World applies them: effects, never intentions. A new event
// needs a struct and an alternative of Event, a message in trace.proto, and its effect in
// world_events.cpp; its Python name is that of the message. Plain values. Durations (Nanos) are
// nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "policies/seam/job.hpp"
#include "topologies/part.hpp"

namespace orrery {

// ---- hardware -----------------------------------------------------------------------------

/// Condition of a part: works, probably failed, failed.
enum class Health : std::uint8_t { ok, suspected, lost };
/// State of one part of the cluster (GPU, node, link, ...).
struct PartState {
  Health health = Health::ok;
  double rate = 1;  ///< remaining fraction of the data sheet's speed (compute or bandwidth)
  Nanos since = 0;  ///< instant of the newest change; set by World
  std::optional<Removal> removal = {};  ///< announced removal, from its announcement to the return
  /// Returns true if the part works as its data sheet says and no removal is announced.
  bool is_nominal() const { return health == Health::ok && rate == 1 && !removal; }
};

// ---- events -------------------------------------------------------------------------------

/// Completion of one or more steps. A live run reports every step; a simulation reports several
/// steps at once if no policy needed a call in between.
struct StepsDone {
  JobId job;
  Step last = 0;            ///< newest completed step
  std::uint64_t count = 1;  ///< number of completed steps
  Nanos duration = 0;       ///< duration of all of these steps together
};
/// Way in which a job ended.
enum class Ending : std::uint8_t { completed, failed, cancelled };
/// End of a job. `ran`: time on its GPUs since the newest start, as the scheduler of a real cluster
/// has recorded it; 0: not recorded. The world counts from event to event.
struct JobDone {
  JobId job;
  Ending how{};
  Nanos ran = 0;
};
/// Result of a checkpoint. If `durable`, training can continue with `step` from the checkpoint;
/// otherwise the checkpoint failed. Training was stalled for `stalled`; the copy was complete after
/// `took`. A durable checkpoint in the memory of nodes is lost with its `holders`, which World
/// follows.
struct SaveDone {
  JobId job;
  Step step = 0;
  Tier tier{};
  Nanos stalled = 0, took = 0;
  bool durable = true;
  std::vector<CopyHolders> holders = {};  ///< holders by shard; empty unless in memory
};
/// Change of the state of a part. A planned removal is announced by a change whose `to.removal` is
/// set while the part still works.
struct PartChanged {
  Part part;
  PartState to;  ///< new state
};
/// Complete list of the ranks of a job without a recent heartbeat. A rank that was in the previous
/// list and is not in this list has sent a heartbeat again, or is lost.
struct RanksSuspected {
  JobId job;
  std::vector<RankId> ranks;
};
/// Loss of ranks of a job at one instant. World moves the micro-batches of the lost replicas to the
/// remaining replicas if these have the memory, and drops shares that were set for later steps. The
/// job's OnLoss decides whether the remaining ranks continue.
struct RanksLost {
  JobId job;
  std::vector<RankId> ranks;  ///< all ranks that were lost at this instant
  Epoch epoch;                ///< membership epoch of the remaining ranks
  /// Set if the loss has revealed that the state of the job is corrupted: step of the newest
  /// checkpoint whose state is intact; 0: none is. No rank can pass on the state.
  std::optional<Step> intact = {};
};
/// Stop of a job, after a loss or for a restart, until an assignment is complete.
struct JobHeld {
  JobId job;
};
/// Release of all GPUs of a job, which waits from now on.
struct JobStopped {
  JobId job;
  Step kept = 0;  ///< step with which the job would continue
};
/// Completion of an assignment: the job runs on its new GPUs. Also the return of silent ranks: lost
/// ranks that are heard again work on their GPUs, without an assignment.
struct JobStarted {
  JobId job;
  Epoch epoch;     ///< membership epoch of the ranks
  Step from = 0;   ///< step with which the job continues
  Standing where;  ///< placement of the job
  /// ranks of `where` that stay lost, ascending; none after an assignment
  std::vector<RankId> lost = {};
};
/// Arrival of a new job.
struct JobSubmitted {
  JobSpec job;
};
/// Kind of outcome of a decision.
enum class Outcome : std::uint8_t { applied, rejected, expired };
/// Outcome of a decision. Applied means that the decision is valid from its step on; the placement
/// itself changes with JobStarted or JobStopped.
struct Decided {
  std::uint64_t decision = 0;  ///< id of the decision
  Outcome status{};
  std::string reason;  ///< reason of a rejection or expiry, for people
};
/// Change of a policy's parameter by the operator, with the names and the value text of the
/// scenario: for example {"fixed-codec", "warm_up_steps", "50"}.
struct ParameterSet {
  std::string policy, parameter, value;
};
/// Periodic call (Needs::tick), or a requested call (DecisionList::wake).
struct Tick {};

/// Any event. The order of the alternatives is the order of the events of one instant: ends,
/// faults, arrivals, outcomes of decisions, and the changes that the decisions caused.
using Event =
    std::variant<StepsDone, JobDone, SaveDone, PartChanged, RanksSuspected, RanksLost, JobHeld,
                 JobSubmitted, Decided, JobStopped, JobStarted, ParameterSet, Tick>;

}  // namespace orrery

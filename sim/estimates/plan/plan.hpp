// Plan of a step: simulated workers and the links of their communications. Called by the simulator
// and the stepper; needs no engine. Seconds, bytes.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "sim/estimates/plan/fold.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Flow activity of the engine that stands for many real flows.
struct WideFlow {
  /// Slots of the plan, each repeated as often as flows cross it.
  std::vector<std::uint32_t> links;
  double share = 1;  ///< bytes of one flow per byte of the operation
  friend bool operator==(const WideFlow&, const WideFlow&) = default;
};

/// Flows that start together, and the latency that their messages add afterwards.
struct CommPhase {
  /// One flow if folded; one per member or communicator in full detail.
  std::vector<WideFlow> parts;
  Seconds latency;
  friend bool operator==(const CommPhase&, const CommPhase&) = default;
};
/// Phases of one communication.
struct CommPlan {
  std::vector<CommPhase> phases;  ///< phases in order; a phase ends before the next one begins
  friend bool operator==(const CommPlan&, const CommPlan&) = default;
};

/// Communicator of a stage, or all communicators of a stage that behave alike. The group executes
/// one collective at a time; a collective begins when all classes have reached it.
struct GroupPlan {
  std::uint32_t stage = 0;
  Communicator communicator{};
  std::vector<std::uint32_t> classes;  ///< classes that take part, ascending
  /// Execution of one requested collective. Sizes with the same algorithm share a plan.
  struct Way {
    OpCollective collective{};
    /// Requested size.
    double bytes = 0;
    std::uint32_t plan = 0;  ///< index into Plan::comms
    double carried = 0;      ///< bytes on the wire, which differ from `bytes` for coded gradients
    Seconds coding = {};     ///< encode and decode time of each rank
    CollectiveAlgorithm algorithm{};  ///< algorithm of the execution
    friend bool operator==(const Way&, const Way&) = default;
  };
  std::vector<Way> ways;
  friend bool operator==(const GroupPlan&, const GroupPlan&) = default;
};

/// Link of the engine.
struct Slot {
  LinkId link;
  double bandwidth = 0;  ///< rate that a flow can reach, bytes per second, faults included
  friend bool operator==(const Slot&, const Slot&) = default;
};

/// Plan of a step for one state of the hardware. Replicas are folded into classes that go through
/// the step in lockstep; a collective or a transfer of a whole class is one wide flow over the
/// links that its real members cross, each with the number of flows that cross it at once. Links
/// that constrain the same flows in the same way, and links that never bind, are left out; the
/// result is the same. Built once per hardware state; immutable.
///
/// For example, 64 healthy replicas with 4 stages are one class and 4 workers, and a transfer
/// between two stages is one flow that stands for the transfers of all 64 replicas.
struct Plan {
  std::vector<ReplicaClass> classes;
  std::vector<std::uint32_t> class_of;  ///< class of each replica
  std::vector<Slot> slots;
  /// LinkId -> slot of links that may change, including links that are down; only of links that a
  /// flow crosses.
  std::map<std::uint32_t, std::uint32_t> pinned;
  std::uint32_t stages = 1;
  std::uint32_t members = 1;  ///< ranks of one stage of a replica
  /// Simulated hosts per (class, stage): all members, or one for all, unless members change
  /// differently during the step (StepHardware).
  std::uint32_t member_hosts = 1;

  /// Communications that groups and transfers refer to.
  std::vector<CommPlan> comms;
  /// Index of a transfer without a stage at its other end.
  static constexpr std::uint32_t kNoTransfer = std::numeric_limits<std::uint32_t>::max();
  /// Index into comms by class x stage: transfer to the next stage.
  std::vector<std::uint32_t> onward;
  /// Index into comms by class x stage: transfer to the stage before.
  std::vector<std::uint32_t> back;
  std::vector<GroupPlan> groups;
  /// Groups of each worker (class x stage), ascending.
  std::vector<std::vector<std::uint32_t>> groups_of;

  /// Returns the index into comms of the transfer of a class between two neighbouring stages; with
  /// chunks the last and the first stage are neighbours too. Call only with neighbours: other
  /// stages of a plan with several stages are not checked. Throws std::out_of_range for a plan with
  /// one stage.
  std::uint32_t transfer(std::uint32_t of_class, std::uint32_t from, std::uint32_t to) const;
  /// Returns the execution of a collective of the given kind and size in a group. Throws an
  /// internal Error if the programs of the group have no such collective.
  const GroupPlan::Way& collective(std::uint32_t group, OpCollective kind, Bytes bytes) const;
  /// Returns the largest number of micro-batches of a replica; 0 without classes.
  std::uint32_t most_micro_batches() const;
  /// Returns the number of simulated workers: classes x stages.
  std::uint32_t workers() const { return static_cast<std::uint32_t>(classes.size()) * stages; }
};

/// Returns the plan of a request; adds new facts to the cache `base`, if the request has one.
Plan make_plan(const PlanRequest& request);
/// Returns all links that carry a flow in the plan of the request, ascending, including links that
/// never bind.
std::vector<LinkId> crossed_links(const PlanRequest& request);
/// Need of a link between switches if all flows are active at once: the number of flows, and the
/// bandwidth at which they can arrive given their other links without faults. A link with more
/// bandwidth than this never binds.
struct LinkNeed {
  std::uint64_t flows = 0;
  double bandwidth = 0;
};
/// Returns the need of each link between switches, by LinkId; links without flows are omitted.
std::map<std::uint32_t, LinkNeed> link_needs(const PlanRequest& request);

}  // namespace orrery::estimates

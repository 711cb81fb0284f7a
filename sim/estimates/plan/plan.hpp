// Who is simulated and over which links: replicas folded into classes that go through a step in
// lockstep, and for every communication of such classes the links that bind it. A collective or
// a transfer of a whole class is one wide flow over the links that its real members cross, each
// with the number of flows that cross it at once. Links that constrain the same flows in the same
// way, and those that never bind, are left out: the result is the same.
// Built once per hardware state by the simulator; immutable; needs no engine. Seconds, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/estimates/plan/fold.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

/// One engine activity: `links` are slots of the plan, each as often as flows cross it.
struct WideFlow {
  std::vector<std::uint32_t> links;
  double share = 1;  ///< bytes of one flow per byte of the operation
  friend bool operator==(const WideFlow&, const WideFlow&) = default;
};

/// Flows that go at once, and what their messages' latencies add.
struct CommPhase {
  std::vector<WideFlow> parts;  ///< one folded; one per member or communicator in full detail
  Seconds latency;
  friend bool operator==(const CommPhase&, const CommPhase&) = default;
};
struct CommPlan {
  std::vector<CommPhase> phases;  ///< one after the other
  friend bool operator==(const CommPlan&, const CommPlan&) = default;
};

/// A communicator of a stage, or all of those that are alike: collectives one at a time, each
/// begun when all classes have come to it.
struct GroupPlan {
  std::uint32_t stage = 0;
  Communicator communicator{};
  std::vector<std::uint32_t> classes;  ///< that take part, ascending
  /// By what is asked of it; sizes with the same algorithm share a plan.
  struct Way {
    OpCollective collective{};
    double bytes = 0;
    std::uint32_t plan = 0;  ///< index into Plan::comms
    double carried = 0;      ///< bytes that it is carried out with: gradients may travel in a code
    Seconds coding = {};     ///< what making and reading the codes takes each rank
    CollectiveAlgorithm algorithm{};  ///< that it is carried out with
    friend bool operator==(const Way&, const Way&) = default;
  };
  std::vector<Way> ways;
  friend bool operator==(const GroupPlan&, const GroupPlan&) = default;
};

/// A link as the engine sees it.
struct Slot {
  LinkId link;
  double bandwidth = 0;  ///< what a flow can reach, faults included
  friend bool operator==(const Slot&, const Slot&) = default;
};

struct Plan {
  std::vector<ReplicaClass> classes;
  std::vector<std::uint32_t> class_of;  ///< by replica
  std::vector<Slot> slots;
  std::map<std::uint32_t, std::uint32_t> pinned;  ///< LinkId -> slot; those that are down too
  std::uint32_t stages = 1;
  std::uint32_t member_hosts = 1;  ///< simulated hosts per (class, stage): all, or one for all

  std::vector<CommPlan> comms;
  std::vector<std::uint32_t> onward;  ///< class x stage: into comms, to the next stage
  std::vector<std::uint32_t> back;    ///< class x stage: to the stage before
  std::vector<GroupPlan> groups;
  /// class x stage: its groups, ascending.
  std::vector<std::vector<std::uint32_t>> groups_of;

  /// Between neighbours; with chunks the last stage and the first one are neighbours too.
  const CommPlan& transfer(std::uint32_t of_class, std::uint32_t from, std::uint32_t to) const;
  const GroupPlan::Way& collective(std::uint32_t group, OpCollective kind, Bytes bytes) const;
  std::uint32_t workers() const { return static_cast<std::uint32_t>(classes.size()) * stages; }
};

Plan make_plan(const PlanRequest& request);
/// All links over which something goes in that plan, ascending.
std::vector<LinkId> crossed_links(const PlanRequest& request);
/// Of links between switches: how many flows cross each, and what they bring it at most, all at
/// once, as fast as their other links are without faults. One that has more than that never binds.
struct LinkNeed {
  std::uint64_t flows = 0;
  double bandwidth = 0;
};
std::map<std::uint32_t, LinkNeed> link_needs(const PlanRequest& request);

}  // namespace orrery::estimates

// Who is simulated and over which links: replicas folded into classes that go through a step in
// lockstep, and for every communication of such a class the links that bind it. A collective or
// a transfer of a whole class is one wide flow over the links that its real members cross, each
// with the number of flows that cross it at once. Links that constrain the same flows in the same
// way, and those that never bind, are left out: the result is the same.
// Built once per hardware state by the simulator; immutable; needs no engine. Seconds, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/cost_model.hpp"
#include "sim/hardware_state.hpp"
#include "topologies/cluster.hpp"
#include "traces/step_graph.hpp"

namespace orrery {

/// Data-parallel replicas with the same program, speeds and links.
struct ReplicaClass {
  std::vector<std::uint32_t> members;  ///< replicas, ascending; the first stands for all
  std::uint32_t micro_batches = 0;
};

/// One engine activity: `links` are slots of the plan, each as often as flows cross it.
struct WideFlow {
  std::vector<std::uint32_t> links;
  double share = 1;  ///< bytes at each edge per byte of the operation
};

struct CommPlan {
  std::vector<WideFlow> parts;  ///< one folded; one per tensor rank in full detail
  Seconds latency;              ///< per round
};

/// A link as the engine sees it.
struct Slot {
  LinkId link;
  double bandwidth = 0;  ///< what a flow can reach, faults included
};

struct Plan {
  std::vector<ReplicaClass> classes;
  std::vector<std::uint32_t> class_of;  ///< by replica
  std::vector<Slot> slots;
  std::map<std::uint32_t, std::uint32_t> pinned;  ///< LinkId -> slot; those that are down too
  std::uint32_t stages = 1;
  std::uint32_t tensor_hosts = 1;  ///< simulated hosts per (class, stage): all, or one for all

  std::vector<CommPlan> forward;   ///< class x boundary: stage to stage + 1
  std::vector<CommPlan> backward;  ///< class x boundary: stage + 1 to stage
  std::vector<CommPlan> rings;     ///< by stage: its data-parallel groups

  const CommPlan& transfer(std::uint32_t of_class, std::uint32_t from, std::uint32_t to) const;
  std::uint32_t workers() const { return static_cast<std::uint32_t>(classes.size()) * stages; }
};

/// Where the job stands, and what must stay visible.
struct PlanRequest {
  const Cluster& cluster;
  const StepGraph& graph;
  const CostProfile& profile;
  const std::vector<GpuId>& placement;  ///< by rank
  const HardwareState& state;
  const std::vector<std::uint32_t>& micro_batches;  ///< by replica
  bool full_detail = false;
  std::vector<RankId> apart = {};   ///< ranks whose replicas are classes of their own
  std::vector<LinkId> pinned = {};  ///< links that will change during the iteration
};

Plan make_plan(const PlanRequest& request);

/// What a flow over a healthy link alone reaches, bytes per second.
double link_rate(const Cluster& cluster, const CostProfile& profile, LinkId link);

/// Rings (channels) over the members of a data-parallel group: one where each node holds one
/// member; where nodes hold k each, k rings that leave the nodes by different GPUs, so that every
/// rail carries its part. Each ring lists the members in order.
std::vector<std::vector<GpuId>> ring_channels(const Cluster& cluster,
                                              const std::vector<GpuId>& members);

}  // namespace orrery

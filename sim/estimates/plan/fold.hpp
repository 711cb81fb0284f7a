// Folding of data-parallel replicas that go through a step in lockstep. Called by
// sim/estimates/plan/plan. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/plan/hardware_state.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "sim/estimates/prices/gradient_codes.hpp"
#include "topologies/cluster.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

class PlanBase;

/// Input of a plan: cluster, placement, state of the hardware, and the ranks and links that must
/// stay visible. `placement` has one GPU for each rank, `micro_batches` one number for each
/// replica, and `state` names ranks of the graph (not checked). Holds references; all must outlive
/// the call.
struct PlanRequest {
  const Cluster& cluster;
  StepGraph& graph;
  const CostProfile& profile;
  const std::vector<GpuId>& placement;  ///< GPU of each rank
  const HardwareState& state;
  const std::vector<std::uint32_t>& micro_batches;  ///< micro-batches of each replica
  /// True if every rank is simulated on its own, without folding.
  bool full_detail = false;
  /// false: flows do not slow each other, so that replicas that meet unequal traffic are alike
  bool shares_links = true;
  std::vector<RankId> apart = {};   ///< ranks whose replicas become classes of their own
  std::vector<LinkId> pinned = {};  ///< links that change during the iteration
  /// Algorithm of collectives; automatic: by size.
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  /// Exceptions by kind and size; takes precedence over `algorithm`.
  CollectiveTable collectives = {};
  const GradientCodes* codes = nullptr;  ///< codes of gradients; null: gradients travel uncoded
  PlanBase* base = nullptr;  ///< results shared by plans of the job; null in full detail
};

/// Equivalence class of replicas that behave identically in a step.
struct ReplicaClass {
  std::vector<std::uint32_t> members;  ///< replicas, ascending; the first represents all
  /// Micro-batches of each member.
  std::uint32_t micro_batches = 0;
};

/// Partition of the replicas into equivalence classes.
struct Folding {
  std::vector<ReplicaClass> classes;
  std::vector<std::uint32_t> class_of;  ///< class of each replica
};

/// Returns the coarsest partition found of the replicas into classes: members of a class have the
/// same program, speeds and NIC rates, paths between stages of the same kinds and rates with the
/// same traffic and changes, and their partners in every communicator belong to the same classes.
/// In full detail, and for the ranks of `apart`, a replica is a class of its own. The partition is
/// refined like colours of a graph until no class splits. `traffic`: a number by replica, equal
/// where the traffic is (PlanBase::traffic_shapes()); empty: it is equal everywhere.
///
/// For example, among 8 healthy replicas with one slow rank in replica 3, replica 3 is a class of
/// its own and the other seven form one class, provided that all their paths are of the same kind.
Folding fold_replicas(const PlanRequest& request, const std::vector<std::uint32_t>& traffic = {});

/// Returns the factor by which the blocks of a rank take longer than nominal: the largest slowdown
/// of the ranks with which the rank shares every layer, namely the members of its stage and, with
/// experts, of its expert-parallel group. Returns 1 if no rank of the state is slow.
double slowest_beside(const StepGraph& graph, const HardwareState& state, RankId rank);

}  // namespace orrery::estimates

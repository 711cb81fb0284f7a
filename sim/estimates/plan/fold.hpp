// Which data-parallel replicas go through a step in lockstep: those with the same program, speeds
// and links, whose partners in every communicator are alike too. Called by sim/estimates/plan/plan;
// the request is what a plan is made for. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/plan/hardware_state.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "sim/estimates/prices/gradient_codes.hpp"
#include "topologies/cluster.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

class PlanBase;

/// Where the job stands, and what must stay visible.
struct PlanRequest {
  const Cluster& cluster;
  StepGraph& graph;
  const CostProfile& profile;
  const std::vector<GpuId>& placement;  ///< by rank
  const HardwareState& state;
  const std::vector<std::uint32_t>& micro_batches;  ///< by replica
  bool full_detail = false;
  std::vector<RankId> apart = {};   ///< ranks whose replicas are classes of their own
  std::vector<LinkId> pinned = {};  ///< links that will change during the iteration
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;  ///< automatic: by size
  CollectiveTable collectives = {};  ///< goes before `algorithm`
  const GradientCodes* codes = nullptr;  ///< none: gradients travel as they are
  PlanBase* base = nullptr;  ///< what is known of other plans of the job; not in full detail
};

/// Replicas that nothing tells apart.
struct ReplicaClass {
  std::vector<std::uint32_t> members;  ///< replicas, ascending; the first stands for all
  std::uint32_t micro_batches = 0;
};

struct Folding {
  std::vector<ReplicaClass> classes;
  std::vector<std::uint32_t> class_of;  ///< by replica
};

Folding fold_replicas(const PlanRequest& request);

/// How many times as long as nominal a rank's blocks take: as the slowest of the ranks with which
/// it shares every layer, the members of its stage and, with experts, of its expert-parallel
/// group.
double slowest_beside(const StepGraph& graph, const HardwareState& state, RankId rank);

}  // namespace orrery::estimates

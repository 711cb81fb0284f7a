// What one step of a job costs on a cluster, without SimGrid: the same programs, plan and prices as
// a simulation, carried out where nothing shares (sim/estimates/step/free_step). Called by
// sim/estimates/predict/prediction and sim/estimates/predict/layouts. Thread-safe: no state between
// calls. Seconds.
#pragma once

#include <cstdint>

#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"
#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

struct StepEstimate {
  double step_s = 0;
  double compute_s = 0;  ///< kernels of the busiest stage
  double inside_s = 0;   ///< its collectives inside blocks (tensor, context, expert) that show
  double exposed_s = 0;  ///< its waiting for gradients, parameters or data
  double pipeline_s = 0;  ///< its waiting for other stages
  MemoryUse memory;      ///< of a GPU of the fullest stage
  std::uint32_t fullest_stage = 0;
  Bytes first_stage;     ///< of tensors, on a GPU of the first stage
};

/// `job` with its model resolved; ranks stand on the cluster's first GPUs. Throws bad_input where
/// the job cannot be laid out, or the GPU lacks the precision.
StepEstimate estimate_step(const Job& job, const Cluster& cluster);
/// Its two halves: of a layout without room nobody wants the time.
void take_memory(const StepGraph& graph, StepEstimate& estimate);
void take_time(StepGraph& graph, const Cluster& cluster, StepEstimate& estimate);

}  // namespace orrery::estimates

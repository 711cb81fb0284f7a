// Estimate of one training step without SimGrid. Called by sim/estimates/predict/prediction and
// sim/estimates/predict/layouts. Thread-safe: no state between calls. Seconds.
#pragma once

#include <cstdint>

#include "sim/estimates/prices/machine_costs.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Time and memory of one step, with the same programs, plan and prices as a simulation, executed
/// without contention (sim/estimates/step/free_step).
struct StepEstimate {
  /// Duration of the step.
  double step_s = 0;
  double compute_s = 0;   ///< kernels of the busiest stage
  double products_s = 0;  ///< part of that in matrix products and attention
  double memory_s = 0;    ///< part of that in kernels that the GPU's memory limits
  double inside_s = 0;    ///< exposed collectives inside its blocks (tensor, context, expert)
  double exposed_s = 0;   ///< its waits for gradients, parameters or data
  double pipeline_s = 0;  ///< its waits for other stages
  MemoryUse memory;       ///< memory of a GPU of the fullest stage
  std::uint32_t fullest_stage = 0;
  Bytes first_stage;  ///< tensor bytes on a GPU of the first stage
  Bytes last_stage;   ///< the same of the last stage
};

/// Returns the estimate of `job`, whose model must be resolved, with ranks on the cluster's first
/// GPUs. Throws bad_input if the job cannot be laid out, the cluster has too few GPUs, or the GPU
/// lacks the precision. A job that exceeds the GPU's memory is estimated all the same. Values of
/// `machine` replace the catalogue's prices.
StepEstimate estimate_step(const Job& job, const Cluster& cluster,
                           const MachineCosts& machine = {});
/// Writes the memory of an estimate and of its stages; the times stay. Of equally
/// full stages the first counts. Separate from the times, because a layout that does not fit needs
/// no times.
void estimate_memory(const StepGraph& graph, StepEstimate& estimate);
/// Writes the times of an estimate, whose times must be 0; the memory stays. Throws bad_input if
/// the cluster has too few GPUs or the GPU lacks the precision.
void estimate_times(StepGraph& graph, const Cluster& cluster, StepEstimate& estimate,
                    const MachineCosts& machine = {});

}  // namespace orrery::estimates

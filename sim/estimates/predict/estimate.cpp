#include "sim/estimates/predict/estimate.hpp"

#include <algorithm>
#include <vector>

#include "sim/estimates/engine/free_engine.hpp"
#include "sim/estimates/plan/in_order.hpp"
#include "sim/estimates/step/free_step.hpp"
#include "sim/estimates/step/stepper.hpp"

namespace orrery::estimates {
namespace {

/// Prices the step in one walk over its programs, with links that a few ranks represent.
void by_walk(StepGraph& graph, const Cluster& cluster, const MachineCosts& machine, InOrder& ground,
             StepEstimate& estimate) {
  const CostProfile profile = job_profile(graph.job(), cluster, machine);
  const auto transfer = [&](std::uint32_t of_class, std::uint32_t from, std::uint32_t to) {
    const InOrder::Way way = ground.transfer(profile, of_class, from, to);
    return FreeTime{way.each, way.latency.value};
  };
  const auto collective = [&](std::uint32_t stage, Communicator which, OpCollective kind) {
    const InOrder::Rings rings = ground.rings(profile, stage, which);
    const std::uint32_t among = graph.communicator_size(which);
    const RingCost cost =
        kind == OpCollective::all_reduce ? ring_all_reduce(among) : ring_half(among);
    return FreeTime{cost.share / rings.channels * rings.each, cost.rounds * rings.round};
  };
  const auto exchanges = [&](std::uint32_t stage, Communicator which, OpCollective kind) {
    return collective(stage, which, kind).each;
  };
  const FreeStep step =
      free_step({.graph = graph,
                 .micro_batches = graph.micro_batches() / graph.data(),
                 .classes = ground.classes(),
                 .prices = block_prices(cluster, graph, ground.block_groups(), exchanges, machine),
                 .transfer = transfer,
                 .collective = collective});
  estimate.step_s = step.duration;
  for (const StageTime& stage : step.stages) {
    if (stage.compute <= estimate.compute_s) continue;
    estimate.compute_s = stage.compute;
    estimate.products_s = stage.products;
    estimate.memory_s = stage.memory;
    estimate.inside_s = stage.inside;
    estimate.exposed_s = stage.exposed + stage.input;
    estimate.pipeline_s = stage.pipeline;
  }
}

/// Simulates the step event by event on the contention-free engine, with a plan of all ranks.
void by_engine(StepGraph& graph, const Cluster& cluster, const MachineCosts& machine,
               StepEstimate& estimate) {
  std::vector<GpuId> placement(graph.ranks());
  for (std::uint32_t rank = 0; rank < placement.size(); ++rank) placement[rank] = {rank};
  Stepper stepper(cluster, graph, placement, {.machine = machine}, free_engine);
  const std::uint32_t share = graph.micro_batches() / graph.data();
  const auto step = stepper.step({}, std::vector<std::uint32_t>(graph.data(), share));
  estimate.step_s = step->run.duration;
  for (const WorkerRun& worker : step->run.workers) {
    if (worker.compute <= estimate.compute_s) continue;
    estimate.compute_s = worker.compute;
    estimate.products_s = worker.products;
    estimate.memory_s = worker.memory;
    estimate.inside_s = worker.tensor;
    estimate.exposed_s = worker.exposed;
    estimate.pipeline_s = worker.passes_end - worker.passes - worker.exposed;
  }
}

}  // namespace

void estimate_memory(const StepGraph& graph, StepEstimate& estimate) {
  const std::uint32_t share = graph.micro_batches() / graph.data();
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    const MemoryUse use = graph.memory(stage, share);
    if (stage == 0) estimate.first_stage = use.allocated();
    estimate.last_stage = use.allocated();
    if (stage > 0 && use.total() <= estimate.memory.total()) continue;
    estimate.memory = use;
    estimate.fullest_stage = stage;
  }
}

void estimate_times(StepGraph& graph, const Cluster& cluster, StepEstimate& estimate,
                    const MachineCosts& machine) {
  InOrder ground(graph, cluster);
  if (ground.all_alike()) {
    by_walk(graph, cluster, machine, ground, estimate);
  } else {
    by_engine(graph, cluster, machine, estimate);
  }
}

StepEstimate estimate_step(const Job& job, const Cluster& cluster, const MachineCosts& machine) {
  StepGraph graph(job);
  StepEstimate estimate;
  estimate_memory(graph, estimate);
  estimate_times(graph, cluster, estimate, machine);
  return estimate;
}

}  // namespace orrery::estimates

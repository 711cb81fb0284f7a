#include "sim/estimate.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/free_engine.hpp"
#include "sim/stepper.hpp"

namespace orrery {
namespace {

std::vector<GpuId> first_gpus(const StepGraph& graph, const Cluster& cluster) {
  if (graph.ranks() > cluster.gpus()) {
    throw Error(ErrorKind::bad_input, fmt::format("the job has {} ranks, the cluster {} GPUs",
                                                  graph.ranks(), cluster.gpus()));
  }
  std::vector<GpuId> gpus;
  gpus.reserve(graph.ranks());
  for (std::uint32_t i = 0; i < graph.ranks(); ++i) gpus.push_back({i});
  return gpus;
}

void take_fullest(const StepGraph& graph, std::uint32_t micro_batches, StepEstimate& estimate) {
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    const MemoryUse use = graph.memory(stage, micro_batches);
    if (stage > 0 && use.total() <= estimate.memory.total()) continue;
    estimate.memory = use;
    estimate.fullest_stage = stage;
  }
}

}  // namespace

StepEstimate estimate_step(const Job& job, const Cluster& cluster) {
  StepGraph graph(job);
  const std::vector<GpuId> placement = first_gpus(graph, cluster);
  const std::uint32_t share = graph.micro_batches() / graph.data();
  Stepper stepper(cluster, graph, placement, {}, free_engine);
  const auto step = stepper.step({}, std::vector<std::uint32_t>(graph.data(), share));
  StepEstimate estimate;
  estimate.step_s = step->run.duration;
  for (const WorkerRun& worker : step->run.workers) {
    if (worker.compute <= estimate.compute_s) continue;
    estimate.compute_s = worker.compute;
    estimate.inside_s = worker.tensor;
  }
  take_fullest(graph, share, estimate);
  return estimate;
}

}  // namespace orrery

#include "sim/estimates/predict/fitting.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "traces/workload/layout_check.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

bool fits_in(const Job& job, const Cluster& cluster) {
  if (!job_problems(job).empty()) return false;
  const StepGraph graph(job);
  const std::uint32_t share = graph.micro_batches() / graph.data();
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    if (graph.memory(stage, share).total() > cluster.gpu_model().memory) return false;
  }
  return true;
}

std::string remedy(const Job& job, const Cluster& cluster) {
  using Change = void (*)(Job&);
  const std::pair<const char*, Change> remedies[] = {
      {"a sharded optimizer (ZeRO-1)", [](Job& j) { j.mutable_layout()->set_shard("optimizer"); }},
      {"recompute selective", [](Job& j) { j.set_recompute("selective"); }},
      {"half the micro-batch",
       [](Job& j) { j.set_micro_batch(std::max(1u, j.micro_batch() / 2)); }},
      {"recompute full", [](Job& j) { j.set_recompute("full"); }},
      {"sharded parameters (ZeRO-3)",
       [](Job& j) { j.mutable_layout()->set_shard("parameters"); }},
  };
  Job changed = job;
  std::vector<std::string> so_far;
  for (const auto& [name, change] : remedies) {
    Job alone = job;
    change(alone);
    if (fits_in(alone, cluster)) return name;
    change(changed);
    so_far.emplace_back(name);
    if (fits_in(changed, cluster)) return fmt::format("{}", fmt::join(so_far, " and "));
  }
  return "more GPUs for each copy of the model";
}

}  // namespace orrery::estimates

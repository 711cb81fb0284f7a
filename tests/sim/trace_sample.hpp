// Hand-built execution traces on a cluster with round rates, run without SimGrid. For tests only.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/estimates/engine/free_engine.hpp"
#include "sim/estimates/step/trace_run.hpp"
#include "tests/traces/chakra_sample.hpp"
#include "tests/traces/sample_cluster.hpp"
#include "traces/chakra/chakra_reader.hpp"

namespace orrery::testing {

inline ChakraTrace trace_of(const std::vector<std::string>& files, const std::string& groups = {}) {
  ChakraFolder folder("t");
  for (std::uint32_t rank = 0; rank < files.size(); ++rank) {
    folder.add_rank(rank, fmt::format("t.{}.et", rank), files[rank]);
  }
  if (!groups.empty()) folder.set_groups("t.json", groups);
  return folder.finish();
}

/// Links reach their full rate.
inline CostProfile full_rates() {
  CostProfile profile;
  profile.nvlink = profile.network = 1;
  return profile;
}

inline TraceRunResult run_on(Engine& engine, const ChakraTrace& trace, const FoldedTrace& folded,
                             const TracePlan& plan, const Cluster& cluster) {
  return run_trace(engine, trace, folded, plan, cluster.gpu_model(), cluster.gpu_model().bf16);
}

/// Without contention.
inline TraceRunResult run_free(const ChakraTrace& trace, const Cluster& cluster,
                               CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring,
                               bool apart = false) {
  const FoldedTrace folded = fold_trace(trace, cluster, apart);
  const TracePlan plan = plan_trace(trace, folded, cluster, full_rates(), algorithm);
  FreeEngine engine(1, static_cast<std::uint32_t>(plan.links.links.size()));
  return run_on(engine, trace, folded, plan, cluster);
}

}  // namespace orrery::testing

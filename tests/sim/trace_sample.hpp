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
  return folder.finish_trace();
}

/// Links reach their full rate.
inline estimates::CostProfile full_rates() {
  estimates::CostProfile profile;
  profile.nvlink = profile.network = 1;
  return profile;
}

inline estimates::TraceRunResult run_on(estimates::Engine& engine, const ChakraTrace& trace,
                                        const FoldedTrace& folded, const estimates::TracePlan& plan,
                                        const Cluster& cluster) {
  return estimates::run_trace(engine, trace, folded, plan, cluster.gpu_model(),
                              cluster.gpu_model().bf16);
}

/// Runs a trace without contention.
inline estimates::TraceRunResult run_free(const ChakraTrace& trace, const Cluster& cluster,
                                          CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring,
                                          bool apart = false) {
  const FoldedTrace folded = fold_trace(trace, cluster, apart);
  const estimates::TracePlan plan =
      estimates::plan_trace(trace, folded, cluster, full_rates(), algorithm);
  estimates::FreeEngine engine(1, static_cast<std::uint32_t>(plan.links.links.size()));
  return run_on(engine, trace, folded, plan, cluster);
}

}  // namespace orrery::testing

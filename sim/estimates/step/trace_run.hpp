// One pass through a folded execution trace on the engine. As in ASTRA-sim, a rank computes one
// thing at a time, has one communication under way and one host operation; a receive waits without
// holding anything up, and so does a collective until all of its members have reached it. Of what
// a rank could start, a message is next, else the node with the least id. Called by the trace
// backend; one thread. Seconds.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/plan/trace_plan.hpp"
#include "topologies/cluster.hpp"
#include "traces/chakra/trace_fold.hpp"

namespace orrery::estimates {

/// What one class did.
struct TraceClassRun {
  double compute = 0;  ///< a kernel computed
  double exposed = 0;  ///< it communicated without computing
};

struct TraceRunResult {
  double duration = 0;
  std::vector<TraceClassRun> classes;
};

/// Nodes that compute take what price() says. `engine` has the plan's links. Throws bad_input that
/// names ranks and nodes when the trace waits for itself across ranks.
TraceRunResult run_trace(Engine& engine, const ChakraTrace& trace, const FoldedTrace& folded,
                         const TracePlan& plan, const GpuModel& gpu, FlopPerSecond peak);

}  // namespace orrery::estimates

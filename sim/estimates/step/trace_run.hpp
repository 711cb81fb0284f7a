// Execution of a folded execution trace on an engine. Called by the trace backend; one thread.
// Seconds.
//
// The rules are those of ASTRA-sim: a rank computes one operation at a time and has one
// communication and one host operation in flight. A receive waits without blocking other
// operations, and so does a collective until all of its members have reached it. Of the operations
// that a rank could start, a message is next, else the node with the least id. For example, of a
// reached collective with id 4 and a send with id 9, the send starts first.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/plan/trace_plan.hpp"
#include "topologies/cluster.hpp"
#include "traces/chakra/trace_fold.hpp"

namespace orrery::estimates {

/// Times of one class. Each class stands for its member ranks.
struct TraceClassRun {
  double compute = 0;  ///< time in which a kernel computed
  double exposed = 0;  ///< time of communication without compute
};

/// Duration of an iteration through the trace, and the times of its classes.
struct TraceRunResult {
  double duration = 0;
  std::vector<TraceClassRun> classes;
};

/// Executes the trace once and returns its times. Compute nodes are priced by GPU and peak rate.
/// `engine` must have the plan's links, all up, and a clock at 0: the duration is the instant of
/// the last end. Sets the bandwidths of these links, and blocks until the engine has run. Throws
/// bad_input with ranks and nodes if ranks wait for each other.
TraceRunResult run_trace(Engine& engine, const ChakraTrace& trace, const FoldedTrace& folded,
                         const TracePlan& plan, const GpuModel& gpu, FlopPerSecond peak);

}  // namespace orrery::estimates

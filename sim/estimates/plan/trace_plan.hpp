// Plan of the communications of a folded execution trace: the phases of every collective and every
// message, for all members of a class at once. Built once per run; immutable; needs no engine.
// Seconds, bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/plan/binding_links.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/chakra/trace_fold.hpp"
#include "traces/workload/collective.hpp"

namespace orrery::estimates {

/// Phase of a communication. A phase ends before the next phase begins.
struct TracePhase {
  std::uint32_t flow = 0;  ///< index into BindingLinks::of_flow
  double bytes = 0;        ///< bytes of one flow
  double latency = 0;      ///< seconds before the flow starts
};

/// Phases of one collective or message.
struct TraceTransfer {
  std::vector<TracePhase> phases;  ///< phases in order; empty if the communication takes no time
};

/// Links and phases of all communications of a folded trace.
struct TracePlan {
  BindingLinks links;
  std::vector<TraceTransfer> collectives;  ///< phases by index of FoldedTrace::collectives
  std::vector<TraceTransfer> sends;        ///< phases by index of FoldedTrace::sends
};

/// Returns the seconds of a compute or memory node: the recorded duration; without one the roofline
/// of the GPU's rates, max(flop / peak, bytes / memory bandwidth), but 0 for a node of the host. A
/// memory node always takes bytes / PCIe rate. For example, 1e12 flop and 2e9 bytes at 1e15 flop/s
/// and 4e12 bytes/s take max(1 ms, 0.5 ms) = 1 ms.
double price(const TraceOp& op, const GpuModel& gpu, FlopPerSecond peak);

/// Closed-form bounds on the duration of one iteration through the trace. Lower bounds: the busiest
/// class must compute all its kernels and execute all its communications. Upper bound: everything
/// of all classes runs one after the other. Links are priced as if nothing shared them.
struct TraceBounds {
  double compute = 0;        ///< seconds of the class that computes longest
  /// Seconds of the class that communicates longest, one communication at a time.
  double communication = 0;
  double serial = 0;         ///< seconds of everything of all classes
};
/// Returns the bounds of a trace on a GPU model with arithmetic rate `peak`.
TraceBounds bounds(const ChakraTrace& trace, const FoldedTrace& folded, const TracePlan& plan,
                   const GpuModel& gpu, FlopPerSecond peak);

/// Returns the plan of a folded trace with rank r on GPU r. `automatic` selects for each collective
/// the algorithm that is cheapest by its closed form. A barrier is planned as an all-reduce of 0
/// bytes, a reduce as a broadcast. Throws bad_input if the cluster has too few GPUs for a
/// collective.
TracePlan plan_trace(const ChakraTrace& trace, const FoldedTrace& folded, const Cluster& cluster,
                     const CostProfile& profile, CollectiveAlgorithm algorithm);

}  // namespace orrery::estimates

// What the communications of a folded execution trace put on which links: every collective as the
// phases of its algorithm, every message as a transfer, for all members of a class at once. Built
// once per run; immutable; needs no engine. Seconds, bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/plan/binding_links.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"
#include "traces/chakra/trace_fold.hpp"
#include "traces/training/collective.hpp"

namespace orrery::estimates {

/// Ends before the next one begins.
struct TracePhase {
  std::uint32_t flow = 0;  ///< index into BindingLinks::of_flow
  double bytes = 0;        ///< of one flow
  double latency = 0;      ///< before it
};

struct TraceTransfer {
  std::vector<TracePhase> phases;  ///< none: takes no time
};

struct TracePlan {
  BindingLinks links;
  std::vector<TraceTransfer> collectives;  ///< as FoldedTrace::collectives
  std::vector<TraceTransfer> sends;        ///< as FoldedTrace::sends
};

/// Seconds of a compute or memory node: what it was recorded to take; without a recorded time the
/// roofline of the GPU's peak rates; of a memory node its bytes over PCIe.
double price(const TraceOp& op, const GpuModel& gpu, FlopPerSecond peak);

/// What a pass cannot beat and cannot miss, by hand: whatever overlaps, the busiest class has to
/// compute and to communicate all that it does; whatever waits, no more than everything of all
/// classes is done one after the other. Links are taken as if nothing shared them.
struct TraceBounds {
  double compute = 0;        ///< of the class that computes longest
  double communication = 0;  ///< of the class that communicates longest, one thing at a time
  double serial = 0;         ///< all of all classes
};
TraceBounds bounds(const ChakraTrace& trace, const FoldedTrace& folded, const TracePlan& plan,
                   const GpuModel& gpu, FlopPerSecond peak);

/// `automatic`: for each collective the algorithm that is cheapest by its closed form.
TracePlan plan_trace(const ChakraTrace& trace, const FoldedTrace& folded, const Cluster& cluster,
                     const CostProfile& profile, CollectiveAlgorithm algorithm);

}  // namespace orrery::estimates

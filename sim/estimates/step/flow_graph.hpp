// Flows of one step of a job, and the fixed times between them. Built by sim/contention/contention
// for jobs without faults, and run by sim/estimates/step/joint_run. Pure; thread-safe. Seconds from
// the begin of the step, bytes.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Flows of a step without faults, and the longest fixed times between them: blocks, latencies,
/// codecs and reads always take equally long, and only flows depend on other jobs. The step takes
/// as long as the execution of its programs (sim/estimates/step/iteration) with each flow at the
/// same rate; tests compare both.
///
/// For example, of two blocks of 1 s, after each of which gradients are exchanged, and an update of
/// 0.1 s after both exchanges, three points remain: the first flow begins at 1 s; the second one
/// at 2 s at the earliest, after the first flow and its latency; the step ends 0.1 s after the
/// second flow and its latency.
struct FlowGraph {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  /// Flows of one phase of one communication.
  struct Kind {
    /// Slots of the plan that such a flow crosses, ascending, with the number of times.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> slots;
    /// Queue of collectives: flows of one queue are in progress at once only if they are of one
    /// phase, one of each kind. kNone: transfers, of which any number can be in progress.
    std::uint32_t queue = kNone;
    std::uint32_t phase = 0;  ///< number of the phase among all phases of the plan
  };
  /// Point that must be reached, with its flow, and the fixed time that follows.
  struct Wait {
    std::uint32_t point = 0;  ///< an earlier point
    double delay = 0;
  };
  /// Instant of the step at which a flow begins, or after which several fixed times begin.
  struct Point {
    std::uint32_t kind = kNone;  ///< kind of the flow; kNone: no flow
    double bytes = 0;            ///< bytes of the flow
    double earliest = 0;         ///< not before this time
    std::vector<Wait> after;     ///< not before the delay after each of these
  };

  std::vector<Kind> kinds;
  std::vector<Point> points;  ///< points in order, not empty; the last one ends the step
};

/// Returns the flows of a step whose GPUs and links are nominal. `prices` are those of the graph's
/// blocks. Throws an internal Error if the programs wait for each other.
FlowGraph flow_graph(StepGraph& graph, const Plan& plan, const std::vector<BlockPrice>& prices);

/// Returns the graph in which flows whose kind has a rate, in bytes per second, take a fixed time;
/// a rate of 0 leaves the flows of the kind as they are. `rates` has one rate for each kind.
FlowGraph with_fixed_flows(const FlowGraph& graph, const std::vector<double>& rates);

/// Returns a text that differs if steps of two graphs with equal rates differ: all but the slots.
std::string text_of(const FlowGraph& graph);

/// Appends the bytes of a number to a text. Texts are equal if the same numbers were appended.
template <class Value>
void append_bytes(std::string& text, const Value& value) {
  static_assert(std::is_arithmetic_v<Value>);
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace orrery::estimates

// Execution of one training step on an engine. Called by the backend, once per distinct state; one
// thread. Seconds from the step's beginning.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Interval of a worker's time, for the timeline.
struct Slice {
  enum class Track : std::uint8_t { compute, communication } track{};
  std::string name;
  double begin = 0, end = 0;
};

/// Times and progress of one simulated worker (a class at a stage) in a step.
struct WorkerRun {
  double compute = 0;       ///< kernels, with the length on slow GPUs
  double tensor = 0;        ///< collectives inside the node
  double passes_end = 0;    ///< end of its last forward or backward block
  double passes = 0;        ///< compute and tensor time of forward and backward blocks
  double exposed = 0;       ///< idle time before such blocks, waiting for a collective or for input
  double input = 0;         ///< part of `exposed` waiting for input
  double tail = 0;          ///< compute and tensor time after passes_end (optimizer)
  double moved = 0;         ///< bytes through the memory of one GPU
  double products = 0;      ///< part of `compute` in matrix products and attention
  double memory = 0;        ///< part of `compute` in kernels that the GPU's memory limits
  std::uint32_t micro_batches = 0;  ///< micro-batches whose backward pass ended
  /// Part of `passes` done by a time: points (time, seconds done), ascending, linear between them.
  std::vector<std::pair<double, double>> progress;
  std::vector<Slice> slices;  ///< intervals for the timeline; empty unless requested
};

/// Returns the shares of products and of kernels that the memory limits in the compute time of a
/// worker; products only if its kinds of kernels are not known.
inline std::pair<double, double> kernel_shares(const WorkerRun& run) {
  if (run.compute <= 0 || run.products + run.memory <= 0) return {1, 0};
  return {run.products / run.compute, run.memory / run.compute};
}

/// Result of one executed step.
struct IterationRun {
  double duration = 0;
  std::vector<WorkerRun> workers;     ///< runs by class x stage, as in the plan
  std::vector<double> stage_passes_end;  ///< end of the passes of each stage's slowest class
  std::uint64_t events = 0;
  /// Seconds at the end of the step in which all work is done and data of the next one are read.
  double input_tail = 0;
  double clock = 1;  ///< share of the compute clock of all GPUs (HardwareState)
  /// True if a fatal change or a failed flow ended the step early, at `duration`.
  bool cut_short = false;
  std::optional<LinkId> broken;  ///< link that is down and failed a flow
};

/// Change of the hardware during the step.
struct TimedChange {
  double at = 0;
  std::vector<std::pair<RankId, double>> slow;       ///< new slowdown factors
  /// New effective rates of pinned links, bytes per second.
  std::vector<std::pair<LinkId, double>> bandwidth;
  std::vector<LinkId> down;                          ///< pinned links that go down
  bool fatal = false;
};

/// Traffic of another job over a pinned link: shares the link from `at` on until `bytes` have
/// passed.
struct Background {
  LinkId link;
  double at = 0, bytes = 0;
};

/// Input of an execution. All references must outlive the execution. Changes and background traffic
/// begin at seconds >= 0 of the step.
struct IterationRequest {
  Engine& engine;
  StepGraph& graph;
  const Plan& plan;
  const std::vector<BlockPrice>& prices;  ///< price of each block
  const HardwareState& state;
  std::vector<TimedChange> changes = {};
  std::vector<Background> background = {};
  bool slices = false;
  /// True if only the duration of the step is wanted, and its GPUs have nominal speed throughout:
  /// blocks are merged (sim/estimates/step/merged_blocks), and the workers' runs are those of
  /// merged blocks.
  bool merges_blocks = false;
};

/// Returns the number of hosts that an engine needs for any step of a job: one for each rank, which
/// a folded step needs if GPUs of all replicas change during the step.
std::uint32_t hosts_needed(const StepGraph& graph);

/// Executes one step and returns its run: every (replica class, stage) of the plan executes its
/// program. Blocks until the step ends or is cut short, then cancels all activities of the engine;
/// call outside of Engine::run(). Throws bad_input if the plan needs more links than the engine
/// has, an internal Error if it needs more hosts or the programs wait for each other,
/// std::out_of_range for background traffic over a link that is not pinned.
IterationRun run_iteration(const IterationRequest& request);

/// Step that shares an engine with other steps. The owner of the engine calls run(); the end of
/// this step cancels no activity of the others. Not thread-safe.
class CurrentStep {
 public:
  /// Starts the step now; call only inside Engine::run(). `ended` is called once at the end of the
  /// step, perhaps within the constructor, and must not destroy this object. All references of
  /// `request`, and `request` itself, must outlive this object. Throws as run_iteration().
  CurrentStep(const IterationRequest& request, std::function<void()> ended);
  /// Destroys the step. Call after Engine::cancel_all(), or after the end of a step that was not
  /// cut short and has no changes and no background traffic: pending callbacks on the engine refer
  /// to this object.
  ~CurrentStep();
  /// Returns the run and leaves none behind. Call once per step, after `ended` was called; throws
  /// an internal Error before, also if the programs wait for each other.
  IterationRun take_run();
  /// Starts the step again, now, as the constructor does. Call only inside Engine::run(), after
  /// take_run(), if the step was not cut short and has no changes and no background traffic.
  void repeat_step();

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace orrery::estimates

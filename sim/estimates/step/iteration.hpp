// One training step on the engine: every (replica class, stage) of a plan executes its program;
// what takes how long, who waits for whom, and how far each had come at each moment comes back.
// Called by the backend, once per distinct state; one thread. Seconds from the step's beginning.
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
#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

/// A piece of a worker's time, for the timeline.
struct Slice {
  enum class Track : std::uint8_t { compute, communication } track{};
  std::string name;
  double begin = 0, end = 0;
};

/// What one simulated worker (a class at a stage) did.
struct WorkerRun {
  double compute = 0;       ///< kernels, slow ones at their real length
  double tensor = 0;        ///< collectives inside the node
  double passes_end = 0;    ///< its last forward or backward block ended
  double passes = 0;        ///< compute and tensor time of forward and backward blocks
  double exposed = 0;       ///< idle between them, waiting for a collective or for input
  double tail = 0;          ///< compute and tensor time after passes_end (optimizer)
  double moved = 0;         ///< bytes through the memory of one GPU
  std::uint32_t micro_batches = 0;  ///< whose backward pass ended
  /// How much of `passes` was done when: ascending points, straight lines between them.
  std::vector<std::pair<double, double>> progress;
  std::vector<Slice> slices;  ///< only if asked for
};

struct IterationRun {
  double duration = 0;
  std::vector<WorkerRun> workers;     ///< class x stage, as in the plan
  std::vector<double> stage_passes_end;  ///< by stage: when its slowest class ended its passes
  std::uint64_t events = 0;
  bool cut_short = false;  ///< a fatal change came, or a flow failed; duration is when
  std::optional<LinkId> broken;  ///< a link that is down, where a flow over it cut it short
};

/// A change of hardware during the iteration.
struct TimedChange {
  double at = 0;
  std::vector<std::pair<RankId, double>> slow;       ///< new factors
  std::vector<std::pair<LinkId, double>> bandwidth;  ///< new effective rates of pinned links
  std::vector<LinkId> down;                          ///< pinned links that go down
  bool fatal = false;
};

/// Bytes of somebody else's over a pinned link, sharing it from `at` on until they have passed.
struct Background {
  LinkId link;
  double at = 0, bytes = 0;
};

struct IterationRequest {
  Engine& engine;
  StepGraph& graph;
  const Plan& plan;
  const std::vector<BlockPrice>& prices;  ///< by block
  const HardwareState& state;
  std::vector<TimedChange> changes = {};
  std::vector<Background> background = {};
  bool slices = false;
};

/// Hosts that an engine needs for the largest plan of a job.
std::uint32_t hosts_needed(const StepGraph& graph, bool full_detail);

IterationRun run_iteration(const IterationRequest& request);

/// A step beside others on one engine: somebody else calls run(), and nobody cancels.
class StepUnderWay {
 public:
  /// Begins now, inside run(); `ended` is called at its end, and may not destroy this. All that
  /// `request` refers to outlives this.
  StepUnderWay(const IterationRequest& request, std::function<void()> ended);
  ~StepUnderWay();
  /// After its end.
  IterationRun take();

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace orrery::estimates

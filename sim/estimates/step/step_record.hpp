// What a step under way has come to: its clock, and what each worker has done so far. Written by
// the parts of its execution; one thread. Seconds from the step's beginning.
#pragma once

#include <cstdint>
#include <utility>

#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

class StepRecord {
 public:
  /// `slices`: each piece of a worker's time is kept. The engine outlives this.
  StepRecord(const Engine& engine, bool slices) : engine_(engine), slices_(slices) {}

  /// Now, for so many workers.
  void begin(std::uint32_t workers);
  double now() const { return engine_.now() - began_; }

  /// What `worker` has done since `from` has ended now.
  void note(std::uint32_t worker, Slice::Track track, const Op& op, double from);
  /// It was idle for so long, waiting for a collective or for input.
  void expose(std::uint32_t worker, double idle) { run_.workers[worker].exposed += idle; }
  /// A block that began at `began` has ended now, its kernels at `kernels`; it moved so many bytes.
  void block(std::uint32_t worker, const Op& op, double began, double kernels, double moved);
  /// A micro-batch's backward pass has ended.
  void micro_batch(std::uint32_t worker) { ++run_.workers[worker].micro_batches; }
  void event() { ++run_.events; }

  /// It ends now; `cut_short`: before all was done.
  void end(bool cut_short);
  void broken_by(LinkId link) { run_.broken = link; }
  bool broken() const { return run_.broken.has_value(); }
  /// After its end; `stages`: of the plan.
  IterationRun take(std::uint32_t stages);

 private:
  const Engine& engine_;
  const bool slices_;
  double began_ = 0;
  IterationRun run_;
};

/// "forward", "backward" and so on.
const char* phase_name(Phase phase);
/// Whether it is forward or backward.
inline bool is_pass(Phase phase) { return phase == Phase::forward || phase == Phase::backward; }

}  // namespace orrery::estimates

// Record of a step in execution. Written by the parts of the execution; one thread. Seconds from
// the step's beginning.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/step/block_log.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Record of a step in execution: its clock, and the times and progress of each worker. Not
/// thread-safe.
class StepRecord {
 public:
  /// Starts empty. With `slices` the record keeps each interval of a worker's time for the
  /// timeline. The engine must outlive this object.
  StepRecord(const Engine& engine, bool slices) : engine_(engine), slices_(slices) {}

  /// Begins a step now, for `workers` workers with at most `blocks` blocks each. Call before all
  /// other methods, and again for another step after take_run().
  void begin(std::uint32_t workers, std::size_t blocks);
  /// Returns the seconds since the step began.
  double now() const { return engine_.now() - began_; }

  /// Returns true if intervals are kept.
  bool keeps_intervals() const { return slices_; }
  /// Adds an interval from `from` until now to the timeline of `worker`, if intervals are kept.
  void add_interval(std::uint32_t worker, Slice::Track track, const Op& op, double from);
  /// Adds idle seconds in which `worker` waited for a collective, or for input if `is_input`.
  void add_exposed_time(std::uint32_t worker, double idle, bool is_input) {
    run_.workers[worker].exposed += idle;
    if (is_input) run_.workers[worker].input += idle;
  }
  /// Records that an operation other than a read ends now.
  void end_work() { work_ended_ = std::max(work_ended_, now()); }
  /// Adds a block of the given price at the compute clock `clock`. Forward and backward blocks
  /// extend the progress and the end of the passes; other blocks count as compute until their end,
  /// and as tail.
  void add_block(std::uint32_t worker, const Op& op, const BlockTimes& times,
                 const BlockPrice& price, double clock);
  /// Counts a micro-batch whose backward pass ended.
  void micro_batch(std::uint32_t worker) { ++run_.workers[worker].micro_batches; }
  /// Counts one ended operation.
  void event() { ++run_.events; }

  /// Ends the step now: sets its duration; `cut_short` means before all operations ended.
  void end(bool cut_short);
  /// Records the link that cut the step short; the caller ends the step by end(true).
  void broken_by(LinkId link) { run_.broken = link; }
  /// Returns true if a link cut the step short.
  bool is_broken() const { return run_.broken.has_value(); }
  /// Returns the run and leaves none behind. Call once per step, after its end. `stages` is the
  /// number of stages of the plan.
  IterationRun take_run(std::uint32_t stages);

 private:
  const Engine& engine_;
  const bool slices_;
  double began_ = 0;
  double work_ended_ = 0;  ///< latest end of an operation that is no read
  IterationRun run_;
};

/// Returns the name of a phase, for example "forward".
const char* phase_name(Phase phase);
/// Returns true for forward and backward phases.
inline bool is_pass(Phase phase) { return phase == Phase::forward || phase == Phase::backward; }

}  // namespace orrery::estimates

// Simulated step on the policy clock. Created by the backend once per step that a policy observes.
// One thread. Instants in nanoseconds of the policy clock, durations in seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/ids.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "topologies/power.hpp"

namespace orrery::estimates {

/// Simulated step placed on the policy clock, with the noise of that one step: micro-batches done
/// at any instant, and the compute and wait times of each replica. Shares the simulated step.
/// Immutable. Replicas and stages are those of the plan (not checked). Of a step that is cut short,
/// the work done until the cut counts as the work of all micro-batches.
///
/// For example, a replica with stretch 1.1 that ends its passes after 2.0 s in the simulated step
/// ends them after 2.2 s here.
class PlayedStep {
 public:
  /// Places a simulated step at `start`. `stretch` is the factor on the compute time of this step,
  /// one for each replica; empty: 1. For a step that is cut short `stretch` must be empty.
  PlayedStep(Step step, Nanos start, std::shared_ptr<const SimulatedStep> what,
             std::vector<double> stretch);

  /// Returns the number of the step.
  Step step() const { return step_; }
  /// Returns the instant at which the step starts.
  Nanos start() const { return start_; }
  /// Returns the instant at which the step ends, noise included.
  Nanos end() const { return end_; }
  /// Returns the nanoseconds from start() to end().
  Nanos duration() const { return end_ - start_; }
  /// Returns the simulated step without the noise.
  const SimulatedStep& what() const { return *what_; }
  /// Returns the factor on compute time by replica; empty if all are 1.
  const std::vector<double>& stretch() const { return stretch_; }

  /// Returns the number of micro-batches that a replica has done at a stage at `instant`, including
  /// the fraction of the current one: 0 before the step, all of the replica after it; always 0 for
  /// a replica without work.
  double done(std::uint32_t replica, std::uint32_t stage, Nanos instant) const;
  /// Returns the number of micro-batches of a replica.
  std::uint32_t micro_batches(std::uint32_t replica) const;
  /// Returns the seconds of forward and backward blocks per micro-batch, collectives inside blocks
  /// included; 0 if the replica has no micro-batch.
  double micro_batch_time(std::uint32_t replica, std::uint32_t stage) const;
  /// Returns the seconds from the end of the replica's own last forward or backward block to the
  /// end of the last one of the slowest replica of the stage.
  double wait_time(std::uint32_t replica, std::uint32_t stage) const;
  /// Returns the seconds in which the replica waited for training data at the stage: before its
  /// blocks, and at the end of the step for data of the next one.
  double input_wait(std::uint32_t replica, std::uint32_t stage) const;
  /// Returns the share of the step in which the GPU ran a kernel, collectives included; the time
  /// after the passes of the slowest replica counts as busy, unless all ranks wait for data. At
  /// most 1; 0 for a step without duration.
  double utilization(std::uint32_t replica, std::uint32_t stage) const;
  /// Returns the seconds of the GPU by activity; the time between kernels counts as waiting.
  ByActivity activity(std::uint32_t replica, std::uint32_t stage) const;
  /// Returns the bytes through GPU memory per second, as the mean of the step; 0 for a step without
  /// duration.
  double memory_rate(std::uint32_t replica, std::uint32_t stage) const;

 private:
  /// Returns the run of the replica's class at a stage.
  const WorkerRun& worker(std::uint32_t replica, std::uint32_t stage) const;
  /// Returns the factor on the compute time of a replica.
  double stretch_of(std::uint32_t replica) const {
    return stretch_.empty() ? 1 : stretch_[replica];
  }

  Step step_;
  Nanos start_, end_;
  std::shared_ptr<const SimulatedStep> what_;
  std::vector<double> stretch_;
  /// End of the passes of the slowest replica, by stage, in seconds.
  std::vector<double> passes_end_;
};

/// Parts of a step's duration, each for the replica in which the part is longest. Seconds.
struct StepParts {
  double compute = 0;   ///< time until the last pass ended
  double exchange = 0;  ///< time of the exchange beyond the compute
  double tail = 0;      ///< update, and other work after the exchange
};
/// Returns the parts of a step that took `whole` seconds under `stretch`, by replica; empty: 1.
/// `exchange` is the rest of `whole`, at least 0.
StepParts parts_of(const SimulatedStep& step, double whole, const std::vector<double>& stretch);

/// Returns the duration of a step with stretched compute: the simulated duration plus the delay of
/// the slowest replica's passes, in seconds. Empty `stretch`: the simulated duration.
double stretched_duration(const SimulatedStep& step, const std::vector<double>& stretch);

}  // namespace orrery::estimates

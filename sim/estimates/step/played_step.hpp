// A simulated step placed on the policy clock, with the noise of that one step: what each replica
// had done at any instant, how long it computed and waited. The backend makes one per step that a
// policy watches. Immutable; one thread. Policy clock in nanoseconds, spans in seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/ids.hpp"
#include "sim/estimates/step/stepper.hpp"

namespace orrery::estimates {

class PlayedStep {
 public:
  /// `stretch`: by replica, how many times as long its compute takes in this step; empty: 1.
  PlayedStep(Step step, Nanos start, std::shared_ptr<const SimulatedStep> what,
             std::vector<double> stretch);

  Step step() const { return step_; }
  Nanos start() const { return start_; }
  Nanos end() const { return end_; }
  Nanos duration() const { return end_ - start_; }
  const SimulatedStep& what() const { return *what_; }
  const std::vector<double>& stretch() const { return stretch_; }

  /// Micro-batches that a replica has done at a stage at `instant`, with the fraction of the
  /// current one.
  double done(std::uint32_t replica, std::uint32_t stage, Nanos instant) const;
  std::uint32_t micro_batches(std::uint32_t replica) const;
  /// Compute per micro-batch; 0 where a replica has none.
  double micro_batch_time(std::uint32_t replica, std::uint32_t stage) const;
  /// From its own last backward block to that of the slowest replica.
  double wait_time(std::uint32_t replica, std::uint32_t stage) const;
  /// Share of the step in which the GPU ran a kernel, collectives included.
  double utilization(std::uint32_t replica, std::uint32_t stage) const;
  /// Bytes through GPU memory per second, mean of the step.
  double memory_rate(std::uint32_t replica, std::uint32_t stage) const;

 private:
  const WorkerRun& worker(std::uint32_t replica, std::uint32_t stage) const;
  double stretch_of(std::uint32_t replica) const {
    return stretch_.empty() ? 1 : stretch_[replica];
  }

  Step step_;
  Nanos start_, end_;
  std::shared_ptr<const SimulatedStep> what_;
  std::vector<double> stretch_;
  std::vector<double> passes_end_;  ///< by stage: of the slowest replica
};

/// What a step of `whole` seconds went into, of the replica that took longest.
struct StepParts {
  double compute = 0;   ///< until the last pass ended
  double exchange = 0;  ///< beyond that
  double tail = 0;      ///< the update and what else comes after the exchange
};
StepParts parts_of(const SimulatedStep& step, double whole, const std::vector<double>& stretch);

/// Length of a step whose replicas' compute is stretched: the slowest replica, then what follows.
double stretched_duration(const SimulatedStep& step, const std::vector<double>& stretch);

}  // namespace orrery::estimates

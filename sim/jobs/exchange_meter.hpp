// Exposed duration of the gradient sum of a training job in its newest committed step, for policies
// that choose collectives and codes. Called by the job's steps; one thread.
#pragma once

#include <optional>
#include <vector>

#include "policies/seam/policy.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::sim {

/// Newest collective sample of a job.
class ExchangeMeter {
 public:
  /// Records `step` of `job`, which took `duration`. `graph`: the current graph. `stretch`: see
  /// PlayedStep.
  void record_step(JobId job, Step step, const estimates::SimulatedStep& what, Nanos duration,
            const std::vector<double>& stretch, const StepGraph& graph);
  /// Adds the sample, if one exists.
  void read(std::vector<CollectiveSample>& out) const;

 private:
  std::optional<CollectiveSample> newest_;
};

}  // namespace orrery::sim

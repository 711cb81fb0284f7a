// How long summing its gradients took a training job beyond the computation, in its newest
// committed step: what policies that choose collectives and codes read. Told by the job's steps;
// one thread.
#pragma once

#include <optional>
#include <vector>

#include "policies/seam/policy.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::sim {

class ExchangeMeter {
 public:
  /// `step` of `job` took `duration`; `graph`: as it stood. `stretch`: as of PlayedStep.
  void note(JobId job, Step step, const estimates::SimulatedStep& what, Nanos duration,
            const std::vector<double>& stretch, const StepGraph& graph);
  /// Adds what there is to be seen.
  void read(std::vector<CollectiveSample>& out) const;

 private:
  std::optional<CollectiveSample> newest_;
};

}  // namespace orrery::sim

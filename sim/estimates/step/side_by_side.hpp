// Steps of several training jobs on one engine, each over and over, where some of their flows meet
// on links: what a step takes beside the others. The jobs share nothing but those links. Called by
// sim/jobs/contention; one thread. Seconds.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/step/iteration.hpp"

namespace orrery::estimates {

/// A job among those that meet. All outlive the call.
struct JobBeside {
  StepGraph& graph;
  const Plan& plan;  ///< links that others cross too are pinned
  const std::vector<BlockPrice>& prices;
  const HardwareState& state;
  double begins = 0;  ///< from now until its next step begins
};

/// A typical step of each job: what it takes in the mean once the beginning is past, and the run of
/// the one that came closest. A job whose step is cut short (a link on its way is down) has that
/// one run. As many steps are simulated as it takes: until the means of two halves agree, or a
/// limit.
struct SteadyStep {
  IterationRun run;
  double mean = 0;
};
std::vector<SteadyStep> steady_steps(Engine& engine, const std::vector<JobBeside>& jobs);

}  // namespace orrery::estimates

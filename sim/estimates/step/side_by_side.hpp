// Simulation of several training jobs on one engine. Called by sim/contention/contention; one
// thread. Seconds.
#pragma once

#include <vector>

#include "sim/estimates/step/joint_links.hpp"

namespace orrery::estimates {

/// Typical step of a job that shares links with others: the mean duration after the first steps,
/// and the run closest to the mean. If a step is cut short because a link is down, the result is
/// that one run.
struct SteadyStep {
  IterationRun run;
  double mean = 0;
  std::vector<double> durations = {};  ///< durations of all steps, in their order
};
/// Returns the typical step of each job. The jobs repeat their steps on one engine and share
/// nothing but links. The simulation ends when all steps of all jobs take equally long, or when for
/// each job the mean durations of the first and the second half agree within 0.1 %, the limit of
/// its steps is reached, or a step of it was cut short, after which the job does no further step.
/// Blocks until then, and cancels all activities of the engine; call outside of Engine::run().
/// Throws bad_input if the engine has too few hosts or links for the jobs together.
///
/// For example, two equal jobs that cross one link at the same time each see about half of the
/// link's bandwidth; drift between jobs of different step times is averaged over at least 256
/// steps.
std::vector<SteadyStep> steady_steps(Engine& engine, const std::vector<JobBeside>& jobs);
/// Returns the same over given engine links, of which each flow of a job must have one.
std::vector<SteadyStep> steady_steps(Engine& engine, const std::vector<JobBeside>& jobs,
                                     JointLinks links);

}  // namespace orrery::estimates

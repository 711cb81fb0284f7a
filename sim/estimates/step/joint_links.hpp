// Links of several training jobs that are simulated together, and the pattern in which the jobs
// share them. Called by sim/estimates/step/side_by_side and sim/contention/contention. Pure;
// thread-safe. Seconds, bytes per second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/estimates/step/iteration.hpp"

namespace orrery::estimates {

/// Job of a joint simulation. All references must outlive the call.
struct JobBeside {
  StepGraph& graph;
  const Plan& plan;  ///< plan in which links that other jobs cross too are pinned
  const std::vector<BlockPrice>& prices;
  const HardwareState& state;
  double begins = 0;  ///< seconds from now until its next step begins
  /// True if only the durations of its steps are wanted, and its GPUs have nominal speed
  /// (IterationRequest::merges_blocks).
  bool duration_only = false;
};

/// Engine links of a joint simulation.
struct JointLinks {
  static constexpr std::uint32_t kNone = ~0u;  ///< number of a slot that another link represents
  /// Engine link by job and slot of the job's plan.
  std::vector<std::vector<std::uint32_t>> numbers;
  std::uint32_t count = 0;  ///< number of engine links
};
/// Returns the engine's links. A link that several jobs cross has one number for all of them; links
/// that the same flows of all jobs cross equally often, with equal bandwidth, are one link. A link
/// has no number if all its flows cross a pinned link that has no more bandwidth as often or more:
/// that link fills first. Links that are down keep their numbers.
JointLinks joint_links(const std::vector<JobBeside>& jobs);

/// Pattern of a group of jobs.
struct JointPattern {
  /// Equal texts: the joint simulations are equal, job by job in this order. The text consists of
  /// the bytes of the jobs, prices and plans without the numbers of ranks, and of the flows over
  /// engine links (joint_links()) without their numbers.
  std::string text;
  std::vector<std::size_t> order;  ///< indices of the jobs
};
/// Returns the pattern of a group without faults, whatever the order of the jobs: where the jobs
/// are placed matters only as far as it changes their plans and shared links. All states must be
/// nominal (not checked).
///
/// For example, jobs in units 0 and 1 and in 1 and 2 have the same pattern as equal jobs in units 5
/// and 3 and in 3 and 4: each has a link of its own, and both share one.
JointPattern joint_pattern(const std::vector<JobBeside>& jobs);

}  // namespace orrery::estimates

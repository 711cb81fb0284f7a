// Links of several training jobs that are simulated together. Called by
// sim/estimates/step/side_by_side and sim/estimates/step/joint_flows. Pure; thread-safe. Seconds,
// bytes per second.
#pragma once

#include <cstdint>
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

}  // namespace orrery::estimates

// Joint simulation of the flows of jobs that can slow each other, without an engine. Called by
// sim/contention/contention. Pure; thread-safe. Seconds.
#pragma once

#include <vector>

#include "sim/estimates/step/joint_flows.hpp"

namespace orrery::estimates {

/// Returns the mean duration of the steps of each lane of a group. All lanes begin a step at once
/// and repeat their steps; flows share links max-min; flows that end within 1 ns end at once. The
/// simulation ends when the means are known (are_settled()).
///
/// For example, a step of two equal jobs takes 2 s if each computes for 1 s and then sends as many
/// bytes as their common link carries in 0.5 s.
std::vector<double> mean_steps(const FlowGroup& group);

/// Returns the durations of the first `count` steps of each lane in the same simulation.
std::vector<std::vector<double>> first_steps(const FlowGroup& group, std::size_t count);

}  // namespace orrery::estimates

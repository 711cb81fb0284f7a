// Choice of the policies of a planned run: the way to recover and the interval of checkpoints, the
// best of a small set by played failures. Called by sim/planning/plan. One thread; no state between
// calls. Seconds.
//
// The set: each way of the question, with checkpoints at half of, at, and at twice Daly's interval.
// The default, restart at Daly's interval (or the first way of the question), stays unless another
// one saves 0.05% of the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/planning/outcomes.hpp"

namespace orrery::sim {

/// Policies that were played for a candidate.
struct TriedPolicies {
  RunPolicies policies;
  std::uint64_t every = 0;  ///< steps between two checkpoints
  double end_s = 0;         ///< median end by failures alone; infinite if half of them never end
};

/// Chosen policies of a candidate. For example, replace at Daly's interval ends 3,600 s before
/// restart: gain_s is 3600.
struct ChosenPolicies {
  RunPolicies policies;
  std::vector<TriedPolicies> tried;  ///< the default first
  double gain_s = 0;                 ///< median end of the default less that of the choice
  std::string why;                   ///< reason in words
};

/// Returns true if a run of the layout can recover in this way: `replace` needs another replica,
/// with whole parameters.
bool can_recover(Recovery recovery, const LayoutChoice& choice);

/// Returns the policies of a candidate. `every`: fixed steps between two checkpoints. The first
/// 100 seeds are played. A way for which can_recover() is false is left out.
ChosenPolicies choose_policies(const PlanQuestion& question, const PlanBasis& basis,
                               const Candidate& candidate, std::optional<std::uint64_t> every,
                               const Slowdown& slowdown, Weather& weather);

/// Writes the way to recover into the policy `recover` of a scenario, if the scenario has one.
void set_recovery(Recovery recovery, Scenario& scenario);

}  // namespace orrery::sim

// Both worlds of a user's program for `orrery compare`: the scenario that `orrery calibrate` wrote
// is simulated, and its command runs on this machine. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/shared/comparison.hpp"
#include "cli/shared/run_options.hpp"

namespace orrery::cli {

/// Scenario of a recorded program, for a number of ranks.
struct ProgramCandidate {
  LoadedScenario loaded;
  std::uint32_t ranks = 0;
};

/// Returns true if the job of the scenario is a recorded program with a command.
bool has_command(const Scenario& scenario);

/// Loads the scenario of `options` for `ranks` ranks, as many as recorded if 0, each with the
/// recorded batch and a node of its own. Throws as load_scenario(), and bad_input, with the place,
/// for a fault other than {at_step, rank, kill: true}, and for a rank that the job lacks.
ProgramCandidate load_program(const RunOptions& options, std::uint32_t ranks);

/// Simulates the program, and runs its command, with the scenario's way of sums, for as many
/// optimizer steps as the scenario says, with the ranks killed at the steps of its faults. A
/// scenario with policies is compared without them first, and then with them in both worlds:
/// Comparison::without_policies. Throws as run(); goal_missed if either world completes no step; an
/// environment Error if the command cannot be started or attached, or if a loss ends it, with the
/// name of the operation, or if a policy fails or needs a part that the program lacks.
Comparison compare_program(const ProgramCandidate& candidate);

}  // namespace orrery::cli

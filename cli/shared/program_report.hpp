// Report of `orrery run` about a program: as JSON and as text. Called at the end of the run. Pure
// functions, except for print_program_report(); thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/shared/launch_words.hpp"
#include "cli/shared/program_policies.hpp"
#include "live/programs/program_run.hpp"

namespace orrery::cli {

/// Outcomes of all attempts of a run, at least one. Every attempt but the last was ended by a loss.
using Attempts = std::vector<live::ProgramOutcome>;

/// Returns the reason for which the attempt ended without a rank that completed the program, for
/// example "no rank completed the program, exit code 1".
std::string reason_of_end(const live::ProgramOutcome& outcome);

/// Returns the report of the run with all its keys. `policies`: nothing for a run without policies.
nlohmann::ordered_json program_report_json(const Launch& launch, const Attempts& attempts,
                                           const std::optional<ProgramPolicyReport>& policies);
/// Prints the report of the run to stderr, without its policies.
void print_program_report(const Launch& launch, const Attempts& attempts);

}  // namespace orrery::cli

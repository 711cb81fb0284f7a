// Grades of a file under the training spec, for `orrery check --spec`: which kind of file it is,
// its grades, and their print. One thread.
#pragma once

#include <string>

#include "cli/shared/run_options.hpp"
#include "sim/planning/training_spec.hpp"

namespace orrery::cli {

/// Returns the grades of a scenario, a cluster file, or the log of a recorded run (with those of
/// its scenario), with the overrides of a scenario. Throws bad_input for any other file.
sim::SpecReport grade_file(const RunOptions& options);

/// Prints the grades, as one JSON object or as a table, to standard output.
void print_grades(const std::string& file, const sim::SpecReport& report, bool json);

}  // namespace orrery::cli

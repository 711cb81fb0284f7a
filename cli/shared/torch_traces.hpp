// Scenario of a PyTorch program from the traces of PyTorch's own tools. Used by `orrery import
// pytorch` and `orrery calibrate --traces`. One thread.
#pragma once

#include <string>
#include <vector>

#include "cli/shared/measured_program.hpp"
#include "cli/shared/output_file.hpp"

namespace orrery::cli {

/// Reads the execution traces and Kineto traces of all ranks, writes the mean of their steps as
/// write_measured(), and prints a summary. Returns the exit code: 0, or 3 after a message about
/// traces that cannot be read. Throws an environment Error if no Python is found, or if a step
/// cannot be recorded, and as write_measured().
int import_traces(const std::vector<std::string>& files, MeasuredOrigin origin,
                  const std::string& out, OutputFile& scenario);

}  // namespace orrery::cli

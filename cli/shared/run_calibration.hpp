// Calibration on measured runs (orrery calibrate --runs): fits a software stack to a table of runs
// with their step times, and writes the stack for --stack. One thread.
#pragma once

#include <string>

namespace orrery::cli {

/// Options of a calibration on runs.
struct RunCalibration {
  std::string runs;    ///< table: columns of orrery predict and iter_time_s (CSV, .gz too)
  std::string out;     ///< stack to write (YAML)
  std::string name;    ///< name of the stack; empty: that of the table's file
  std::string stacks;  ///< stacks that replace the shipped ones as the basis; may be empty
};

/// Fits and writes the stack, and prints each run with its predictions before and after. Rows
/// without a step time or a price are named on standard error and left out. Returns the exit code
/// 0. Throws bad_input if no row is left, and as fit_own_stack() and OutputFile.
int calibrate_runs(const RunCalibration& options);

}  // namespace orrery::cli

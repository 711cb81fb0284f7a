// Calibration on a user's PyTorch program (orrery calibrate -- python train.py): runs some steps of
// the program, and writes them as a scenario of this program on this machine. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace orrery::cli {

/// Options of a calibration.
struct ProgramCalibration {
  std::string out;                     ///< scenario to write (NAME.yaml), beside NAME.0.et
  std::optional<std::uint32_t> ranks;  ///< -n
  std::uint32_t steps = 20;            ///< measured steps
  bool per_example = false;     ///< a micro-batch is one example of each batch, not a whole pass
  std::string traces;           ///< folder of PyTorch's own traces; empty: none
  std::string sums = "memory";  ///< SumPath
  std::vector<std::string> program;  ///< program with its arguments
};

/// Runs the program until all ranks have measured the steps, ends it, writes the scenario and the
/// recording, and prints a summary. With `traces` the ranks record further steps with PyTorch's
/// own tools, which are imported as FOLDER/NAME.yaml; traces that cannot be imported stay there,
/// and a message says why. Returns the exit code: 0, or 127 if there is no such program.
/// Throws an environment Error if the program ends before, or cannot be recorded; errors as
/// read_launch() and OutputFile.
int calibrate_program(const ProgramCalibration& options);

}  // namespace orrery::cli

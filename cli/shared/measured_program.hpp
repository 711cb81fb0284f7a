// Scenario of a measured PyTorch program on the machine that measured it, from the profiles of its
// ranks. Used by `orrery calibrate -- python ...` and `orrery import pytorch`. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/shared/output_file.hpp"
#include "live/programs/calibration/rank_profile.hpp"
#include "live/programs/calibration/step_recording.hpp"

namespace orrery::cli {

/// Origin of a measured program: texts of its scenario.
struct MeasuredOrigin {
  std::string comment;               ///< first line of the scenario, without the '#'
  std::string description;           ///< value of the scenario's key `description`
  std::vector<std::string> command;  ///< command of a rank; empty: unknown
  std::string sums = {};             ///< SumPath of the measured ranks; empty without a command
  /// micro-batches of each rank, if they are single examples; 0: those of the recording, its passes
  std::uint32_t examples = 0;
};

/// Returns the path of the profile of a rank in a folder.
std::string profile_path(const std::string& folder, std::uint32_t rank);

/// Returns the profiles of all ranks in a folder. Throws as live::rank_profile_of().
std::vector<live::RankProfile> read_profiles(const std::string& folder, std::uint32_t ranks);

/// Writes the step as the recording NAME.0.et, and the scenario NAME.yaml at the path `out`, which
/// `scenario` has opened; then prints a summary. Throws environment Errors as write_recording() and
/// OutputFile.
void write_measured(const live::MeasuredStep& measured, const MeasuredOrigin& origin,
                    const std::string& out, OutputFile& scenario);

}  // namespace orrery::cli

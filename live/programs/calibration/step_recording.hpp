// Recorded step of a user's program from the profiles of its ranks: measured computation between
// the operations, in the form that `orrery rehearse` writes with priced kernels. Called by
// `orrery calibrate` and `orrery import pytorch`. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "live/programs/calibration/link_fit.hpp"
#include "live/programs/calibration/rank_profile.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// Mean times of the used steps of one rank.
struct RankTimes {
  double compute_s = 0, input_s = 0;
  double exchange_s = 0;  ///< the rest of the step, in which the rank waits for operations
};

/// Step of a program as measured.
struct MeasuredStep {
  RecordedStep step;
  std::optional<FittedLinks> links;  ///< nothing without an operation of a group
  std::size_t used_steps = 0;        ///< steps whose times are averaged
  std::size_t seen_steps = 0;        ///< steps that the profiles contain
  std::uint32_t examples = 0;        ///< rows of a batch on all ranks; 0: unknown, or ranks differ
  double duration_s = 0;             ///< mean duration of the used steps
  // Mean seconds of the used steps, of the rank that is slowest between two waits.
  double compute_s = 0, input_s = 0;
  double exchange_s = 0;         ///< the rest: operations that do not overlap with computation
  std::vector<RankTimes> ranks;  ///< each rank's own times, by rank
};

/// Number of steps that profiles must have, and of those at their begin that do not count. The
/// defaults are those of a program that starts: PyTorch orders its buckets anew, allocators grow.
struct StepChoice {
  std::size_t warm_up = 3;  ///< first steps that do not count, unless all others are missing
  std::size_t least = 5;    ///< fewest complete steps, the first ones included
};

/// Returns the step that most of the steps resemble: steps with the same operations in the same
/// order on all ranks, without the first ones. Its times are the means over the middle half of
/// those steps by duration; of two ranks, the slower one between two waits counts. Ranks that do
/// different work are therefore recorded as equally slow. Throws an environment Error for profiles
/// with too few steps, without a backward pass, with ranks that call different operations, with an
/// operation that a recorded step cannot contain, or with a group of irregular ranks; the message
/// names the operation.
MeasuredStep measure_step(const std::vector<RankProfile>& profiles, const StepChoice& choice = {});

}  // namespace orrery::live

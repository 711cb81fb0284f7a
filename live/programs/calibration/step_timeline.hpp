// Timeline of the steps of a profiled rank: the marks between which the rank computes. Used by
// step_recording. Pure functions; thread-safe. Seconds of the monotonic clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "live/programs/calibration/rank_profile.hpp"

namespace orrery::live {

/// Instant at which a rank begins or ends something beside computing.
struct StepMark {
  enum class Kind : std::uint8_t {
    issue,  ///< calls an operation
    wait,   ///< waits for an operation
    backward_begin,
    backward_end,
    input_begin,
    input_end,
    step_end,  ///< the optimizer has updated the parameters
  } kind{};
  double at_s = 0;
  std::size_t operation = 0;  ///< issue, wait: index into RankProfile::operations
};

/// One step of a rank. Its first mark follows the step_end of the step before.
struct StepTimeline {
  double begin_s = 0;
  std::vector<StepMark> marks;  ///< marks in the order of time; the last one is step_end

  double duration_s() const { return marks.back().at_s - begin_s; }
};

/// Returns the complete steps of a rank, oldest first; the first one, whose begin is unknown, is
/// left out. A step ends with an optimizer's update that a backward pass follows, so two optimizers
/// in a row are one step. Operations that a backward pass issues and nobody awaits are those of
/// DistributedDataParallel, which waits behind the newest one. Example: a step with the calls
/// all_reduce A and B in its backward pass has the marks backward_begin, issue A, issue B, wait B,
/// backward_end, step_end.
std::vector<StepTimeline> timelines_of(const RankProfile& profile);

/// Returns a text that is equal for two steps with the same marks and operations in one order.
std::string shape_of(const RankProfile& profile, const StepTimeline& step);

/// Returns the seconds that the rank computes before each mark of the step. The wait for an
/// operation lasts until its end, and is no computation.
std::vector<double> compute_before(const RankProfile& profile, const StepTimeline& step);

}  // namespace orrery::live

// Loops over the ranks of a job for job_watch: each loop becomes instructions on whole vectors, and
// every variant computes the same bits. For example, mark_news() compares the progress of 512 ranks
// in 64 steps of eight ranks. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"

namespace orrery {

/// Returns true if the numbers are 0, 1, 2 and so on.
bool counts_up(std::span<const std::uint32_t> numbers);
/// Returns true if all steps are equal, or there are none.
bool are_equal(std::span<const Step> steps);

/// Returns the smallest number; the largest possible number without any.
std::uint64_t least_of(std::span<const std::uint64_t> numbers);

/// Progress of ranks at one look, and the progress at which each rank has news.
struct Progress {
  std::span<const Step> steps;   ///< step in progress
  std::span<const double> done;  ///< micro-batches done; NaN: unknown
  const Step* seen_steps;        ///< step of the newest progress
  const double* next_done;       ///< micro-batches done from which on there is news in that step
};
/// Sets the mark of each rank to 1 if the rank is in another step than before or has done
/// `next_done` micro-batches within `rounding`, otherwise to 0. All spans have equal sizes.
void mark_news(const Progress& progress, double rounding, std::span<std::uint8_t> marks);

/// Sets the mark of each rank to 1 if `settled` of the rank differs from `step`, otherwise to 0.
void mark_unsettled(const Step* settled, Step step, std::span<std::uint8_t> marks);
/// Sets the mark of each rank to 1 if the square of the rank's change exceeds `limit`; leaves other
/// marks as they are. Both spans have equal sizes.
void mark_changes(std::span<const double> changes, double limit, std::span<std::uint8_t> marks);

/// Replaces `out` by the places of the marks that are not 0, ascending.
void find_marked(std::span<const std::uint8_t> marks, std::vector<std::uint32_t>& out);

/// Adds each value from `least` to `most` to the sum at its place and 1 to the count; ignores other
/// values, which include NaN.
void add_usable(std::span<const double> values, double least, double most, double* sums,
                double* counts);

/// Fills `out` with levels + factor x slopes.
void extrapolate(std::span<const double> levels, const double* slopes, double factor,
                 std::span<double> out);

/// Replaces `out` by the place of the largest value of each run of `run` > 0 values, of equal ones
/// the first; the last run may be shorter. A run without a number has the place of its first value.
/// For example, the values 1, 3, 3, NaN and 2 in runs of 3 give 1 and 4.
void find_largest(std::span<const double> values, std::size_t run, std::vector<std::uint32_t>& out);

/// Log times of ranks at their newest steps, and their slopes.
struct Slopes {
  std::span<const double> log_times;  ///< NaN: never measured
  const double* slopes;
  const double* variances;  ///< variances of the slopes
  const Step* steps;
};
/// Returns true if the log time of a rank that was measured changes by more than `change`, up or
/// down, from the rank's step to `target`, and its slope exceeds its standard deviation
/// `confidence` times.
bool is_any_steep(const Slopes& ranks, Step target, double change, double confidence);

}  // namespace orrery

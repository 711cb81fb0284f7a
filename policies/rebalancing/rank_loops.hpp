// Loops over the ranks of a job for job_watch: each loop becomes instructions on whole vectors, and
// every variant computes the same bits. For example, mark_news() compares the progress of 512 ranks
// in 64 steps of eight ranks. Pure functions; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.hpp"

namespace orrery {

/// Returns true if the numbers are 0, 1, 2 and so on.
bool counts_up(std::span<const std::uint32_t> numbers);
/// Returns true if all steps are equal, or there are none.
bool are_equal(std::span<const Step> steps);

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

/// Changes of three signals by rank, and the squares of the largest changes that tell nothing.
struct SignalChanges {
  std::array<const double*, 3> changes;
  std::array<double, 3> limits;
};
/// Sets the mark of each rank to 1 if the square of one of its changes exceeds the limit or
/// `settled` of the rank differs from `step`, otherwise to 0.
void mark_changes(const SignalChanges& signals, const Step* settled, Step step,
                  std::span<std::uint8_t> marks);

/// Replaces `out` by the places of the marks that are not 0, ascending.
void find_marked(std::span<const std::uint8_t> marks, std::vector<std::uint32_t>& out);

/// Adds each value from `least` to `most` to the sum at its place and 1 to the count; ignores other
/// values, which include NaN.
void add_usable(std::span<const double> values, double least, double most, double* sums,
                double* counts);

/// Fills `out` with levels + factor x slopes.
void extrapolate(std::span<const double> levels, const double* slopes, double factor,
                 std::span<double> out);

}  // namespace orrery

// Summary of the ranks of a job for sources that can give the samples of single ranks. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "policies/seam/lower_median.hpp"
#include "policies/seam/sample_columns.hpp"

namespace orrery {

/// Memory of a summary, which keeps its size from one summary to the next.
struct SummaryBuffer {
  std::vector<RankSample> slowest;  ///< slowest ranks of the newest summary
  std::vector<double> known, distances;
  MedianGuess typical, spread;  ///< guesses of the medians of times and of distances
  /// time from which on a few ranks are slow, the slowest of the next summary probably among them
  double slow = std::numeric_limits<double>::infinity();
};

/// Returns the summary of a job's ranks as summarize() of samples.hpp does, from the rows and the
/// micro-batch times of all ranks. `fill_rank(row, sample)` fills the values of a sample; it is
/// called for the slowest ranks only. The summary refers to `buffer`, which must outlive it.
RankSummary summarize(const SampleRows& rows, const SampleColumn& times, JobId job,
                      std::uint32_t latest, SummaryBuffer& buffer,
                      const std::function<void(std::size_t, RankSample&)>& fill_rank);

}  // namespace orrery

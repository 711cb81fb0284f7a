#include "policies/seam/samples.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "core/processor/vector_clones.hpp"
#include "policies/seam/lower_median.hpp"
#include "policies/seam/rank_summary.hpp"
#include "policies/seam/sample_columns.hpp"

namespace orrery {
namespace {

/// Number of values that are compared before slow ranks are searched among them.
constexpr std::size_t kBlock = 256;

ORRERY_VECTORS bool is_any_from(std::span<const double> values, double least) {
  std::uint64_t count = 0;
  for (const double value : values) count += value >= least ? 1 : 0;
  return count > 0;
}

/// Returns the rows of the `latest` slowest ranks, slowest first; equally slow ranks by rank.
std::vector<std::uint32_t> slowest_rows(const SampleRows& rows, const SampleColumn& times,
                                        std::uint32_t latest) {
  const auto is_slower = [&](std::uint32_t a, std::uint32_t b) {
    const double of_a = times.values[a], of_b = times.values[b];
    return of_a > of_b || (of_a == of_b && rows.ids[a] < rows.ids[b]);
  };
  std::vector<std::uint32_t> slowest;  // a heap whose front is the fastest of them
  if (latest == 0) return slowest;
  const auto add_row = [&](std::uint32_t row) {
    if (slowest.size() == latest) {
      if (!(times.values[row] >= times.values[slowest.front()])) return;
      if (!is_slower(row, slowest.front())) return;
      std::pop_heap(slowest.begin(), slowest.end(), is_slower);
      slowest.pop_back();
    } else if (std::isnan(times.values[row])) {
      return;
    }
    slowest.push_back(row);
    std::push_heap(slowest.begin(), slowest.end(), is_slower);
  };
  const std::span<const double> all = times.values;
  for (std::size_t begin = 0; begin < all.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, all.size());
    if (slowest.size() == latest) {
      const double least = times.values[slowest.front()];
      if (!is_any_from(all.subspan(begin, end - begin), least)) continue;
    }
    for (std::size_t row = begin; row < end; ++row) add_row(static_cast<std::uint32_t>(row));
  }
  std::sort_heap(slowest.begin(), slowest.end(), is_slower);
  return slowest;
}

/// Returns the age of the oldest known sample; 0 without any.
Nanos oldest_age(const SampleColumn& column, bool any_known) {
  if (column.ages.size() == 1) return any_known ? std::max(column.ages[0], Nanos{0}) : 0;
  Nanos oldest = 0;
  for (std::size_t row = 0; row < column.size(); ++row) {
    if (!std::isnan(column.values[row])) oldest = std::max(oldest, column.age(row));
  }
  return oldest;
}

ORRERY_VECTORS std::size_t count_missing(std::span<const double> values) {
  std::uint64_t count = 0;
  for (const double value : values) count += value != value ? 1 : 0;
  return count;
}

/// Returns the known values; `buffer` holds them if some are missing.
std::span<const double> known_values(const SampleColumn& column, std::vector<double>& buffer) {
  if (count_missing(column.values) == 0) return column.values;
  buffer.clear();
  std::remove_copy_if(column.values.begin(), column.values.end(), std::back_inserter(buffer),
                      [](double value) { return std::isnan(value); });
  return buffer;
}

/// Fills `out` with the distances of values from `typical`, as fractions of it.
ORRERY_VECTORS void fill_distances(std::span<const double> values, double typical,
                                   std::span<double> out) {
  const double* const from = values.data();
  double* const to = out.data();
  const std::size_t count = out.size();
  for (std::size_t i = 0; i < count; ++i) to[i] = std::abs(from[i] / typical - 1);
}

}  // namespace

RankSummary summarize(const SampleRows& rows, const SampleColumn& times, JobId job,
                      std::uint32_t latest, SummaryBuffer& buffer,
                      const std::function<void(std::size_t, RankSample&)>& fill_rank) {
  RankSummary summary;
  summary.ranks = static_cast<std::uint32_t>(rows.size());
  const std::span<const double> values = known_values(times, buffer.known);
  summary.age = oldest_age(times, !values.empty());
  summary.micro_batch_time = lower_median(values, buffer.typical);
  if (summary.micro_batch_time > 0) {
    buffer.distances.resize(values.size());
    fill_distances(values, summary.micro_batch_time, buffer.distances);
    summary.deviation = 1.4826 * lower_median(buffer.distances, buffer.spread);
  }
  buffer.slowest.clear();
  for (const std::uint32_t row : slowest_rows(rows, times, latest)) {
    set_keys(rows, row, job, buffer.slowest.emplace_back());
    fill_rank(row, buffer.slowest.back());
  }
  summary.latest = buffer.slowest;
  return summary;
}

RankSummary summarize(Samples& samples, JobId job, std::uint32_t latest,
                      std::vector<RankSample>& slowest) {
  const auto fill_rank = [&](std::size_t row, RankSample& out) {
    for (const SampleField field : fields_of(SampleTable::ranks)) {
      value_of(out, field) = samples.column(field, job)->sample(row);
    }
  };
  SummaryBuffer buffer;
  RankSummary summary = summarize(*samples.rows(SampleTable::ranks, job),
                                  *samples.column(SampleField::micro_batch_time, job), job, latest,
                                  buffer, fill_rank);
  slowest = std::move(buffer.slowest);
  summary.latest = slowest;
  return summary;
}

}  // namespace orrery

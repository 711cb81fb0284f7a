#include "policies/seam/samples.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
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
/// Ranks that are sorted to find the slowest of them, as a multiple of those that are wanted.
constexpr std::size_t kFew = 8;

ORRERY_VECTORS bool is_any_from(std::span<const double> values, double least) {
  std::uint64_t count = 0;
  for (const double value : values) count += value >= least ? 1 : 0;
  return count > 0;
}

/// Sets the mark of each value from `least` on to 1, that of others to 0. Returns how many are 1.
ORRERY_VECTORS std::size_t mark_from(std::span<const double> values, double least,
                                     std::uint8_t* marks) {
  const double* const from = values.data();
  std::uint8_t* __restrict const to = marks;
  const std::size_t size = values.size();
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < size; ++i) {
    to[i] = from[i] >= least ? 1 : 0;
    count += from[i] >= least ? 1 : 0;
  }
  return count;
}

/// Order of ranks in a summary: slower ones first, equally slow ones by rank.
struct IsSlower {
  const SampleRows& rows;
  std::span<const double> times;
  bool operator()(std::uint32_t a, std::uint32_t b) const {
    return times[a] > times[b] || (times[a] == times[b] && rows.ids[a] < rows.ids[b]);
  }
};

/// Returns true and sets `out` to the rows from time `slow` on if these are at least `latest` and
/// few.
bool find_slow(std::span<const double> times, double slow, std::size_t latest,
               std::vector<std::uint32_t>& out) {
  std::array<std::uint8_t, kBlock> marks;
  out.clear();
  for (std::size_t begin = 0; begin < times.size(); begin += kBlock) {
    const auto block = times.subspan(begin, std::min(kBlock, times.size() - begin));
    std::size_t left = mark_from(block, slow, marks.data());
    if (out.size() + left > kFew * latest) return false;
    for (std::size_t i = 0; left > 0; ++i) {
      if (marks[i] == 0) continue;
      out.push_back(static_cast<std::uint32_t>(begin + i));
      --left;
    }
  }
  return out.size() >= latest;
}

/// Returns the rows of the `latest` > 0 slowest ranks, in any order.
std::vector<std::uint32_t> search_slowest(const IsSlower& is_slower, std::uint32_t latest) {
  const std::span<const double> times = is_slower.times;
  std::vector<std::uint32_t> slowest;  // a heap whose front is the fastest of them
  const auto add_row = [&](std::uint32_t row) {
    if (slowest.size() == latest) {
      if (!(times[row] >= times[slowest.front()])) return;
      if (!is_slower(row, slowest.front())) return;
      std::pop_heap(slowest.begin(), slowest.end(), is_slower);
      slowest.pop_back();
    } else if (std::isnan(times[row])) {
      return;
    }
    slowest.push_back(row);
    std::push_heap(slowest.begin(), slowest.end(), is_slower);
  };
  for (std::size_t begin = 0; begin < times.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, times.size());
    if (slowest.size() == latest) {
      const double least = times[slowest.front()];
      if (!is_any_from(times.subspan(begin, end - begin), least)) continue;
    }
    for (std::size_t row = begin; row < end; ++row) add_row(static_cast<std::uint32_t>(row));
  }
  return slowest;
}

/// Returns the rows of the `latest` slowest ranks, slowest first; equally slow ranks by rank.
/// `slow` decides how much is compared, never the result; moves it to this result.
std::vector<std::uint32_t> slowest_rows(const SampleRows& rows, const SampleColumn& times,
                                        std::uint32_t latest, double& slow) {
  std::vector<std::uint32_t> slowest;
  if (latest == 0) return slowest;
  const IsSlower is_slower{rows, times.values};
  if (!find_slow(times.values, slow, latest, slowest)) slowest = search_slowest(is_slower, latest);
  std::sort(slowest.begin(), slowest.end(), is_slower);
  if (slowest.size() < latest) return slowest;
  slowest.resize(latest);
  // As far below the last as the middle one is above it: about twice as many ranks of a normal
  // distribution, and a few ranks that are much slower than all others do not matter.
  const double last = times.values[slowest.back()];
  slow = last - (times.values[slowest[latest / 2]] - last);
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
  for (const std::uint32_t row : slowest_rows(rows, times, latest, buffer.slow)) {
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

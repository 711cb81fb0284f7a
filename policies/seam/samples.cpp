#include "policies/seam/samples.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "policies/seam/rank_summary.hpp"
#include "policies/seam/sample_columns.hpp"

namespace orrery {
namespace {

/// Number of values from which on the median first counts the values of equal intervals.
constexpr std::size_t kManyValues = 4096;

/// Returns the values of the interval that contains the value of rank `nth`, and subtracts the
/// number of smaller values from `nth`.
std::vector<double> values_around(const std::vector<double>& values, std::size_t& nth) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (*least == *most || !std::isfinite(*most - *least)) return values;
  constexpr std::size_t kIntervals = 1024;
  const double from = *least, scale = (kIntervals - 1) / (*most - *least);
  const auto interval_of = [&](double value) {
    return static_cast<std::size_t>((value - from) * scale);
  };
  std::array<std::size_t, kIntervals> counts{};
  for (const double value : values) ++counts[interval_of(value)];
  std::size_t interval = 0;
  for (; nth >= counts[interval]; ++interval) nth -= counts[interval];
  std::vector<double> kept;
  for (const double value : values) {
    if (interval_of(value) == interval) kept.push_back(value);
  }
  return kept;
}

/// The lower median; 0 without values.
double median(const std::vector<double>& values) {
  if (values.empty()) return 0;
  std::size_t nth = (values.size() - 1) / 2;
  std::vector<double> near = values.size() < kManyValues ? values : values_around(values, nth);
  const auto middle = near.begin() + static_cast<std::ptrdiff_t>(nth);
  std::nth_element(near.begin(), middle, near.end());
  return *middle;
}

/// Returns the rows of the `latest` slowest ranks, slowest first; equally slow ranks by rank.
std::vector<std::uint32_t> slowest_rows(const SampleRows& rows, const SampleColumn& times,
                                        std::vector<std::uint32_t> known, std::uint32_t latest) {
  const auto end = known.begin() + std::min<std::ptrdiff_t>(latest, std::ssize(known));
  std::partial_sort(known.begin(), end, known.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double of_a = times.values[a], of_b = times.values[b];
    return of_a > of_b || (of_a == of_b && rows.ids[a] < rows.ids[b]);
  });
  known.erase(end, known.end());
  return known;
}

}  // namespace

RankSummary summarize(const SampleRows& rows, const SampleColumn& times, JobId job,
                      std::uint32_t latest, std::vector<RankSample>& slowest,
                      const std::function<void(std::size_t, RankSample&)>& fill_rank) {
  RankSummary summary;
  summary.ranks = static_cast<std::uint32_t>(rows.size());
  std::vector<double> values;
  std::vector<std::uint32_t> known;
  values.reserve(times.size());
  known.reserve(times.size());
  for (std::uint32_t row = 0; row < times.size(); ++row) {
    if (std::isnan(times.values[row])) continue;
    values.push_back(times.values[row]);
    known.push_back(row);
    summary.age = std::max(summary.age, times.age(row));
  }
  summary.micro_batch_time = median(values);
  if (summary.micro_batch_time > 0) {
    for (double& value : values) value = std::abs(value / summary.micro_batch_time - 1);
    summary.deviation = 1.4826 * median(values);
  }
  slowest.clear();
  for (const std::uint32_t row : slowest_rows(rows, times, std::move(known), latest)) {
    set_keys(rows, row, job, slowest.emplace_back());
    fill_rank(row, slowest.back());
  }
  summary.latest = slowest;
  return summary;
}

RankSummary summarize(Samples& samples, JobId job, std::uint32_t latest,
                      std::vector<RankSample>& slowest) {
  const auto fill_rank = [&](std::size_t row, RankSample& out) {
    for (const SampleField field : fields_of(SampleTable::ranks)) {
      value_of(out, field) = samples.column(field, job)->sample(row);
    }
  };
  return summarize(*samples.rows(SampleTable::ranks, job),
                   *samples.column(SampleField::micro_batch_time, job), job, latest, slowest,
                   fill_rank);
}

}  // namespace orrery

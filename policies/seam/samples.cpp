#include "policies/seam/samples.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

/// Returns the lower median, 0 for no values; reorders `values`.
double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

RankSummary summarize(std::span<const RankSample> ranks, std::uint32_t latest,
                      std::vector<RankSample>& slowest) {
  RankSummary summary;
  summary.ranks = static_cast<std::uint32_t>(ranks.size());
  std::vector<double> times;
  std::vector<std::uint32_t> known;  // indices in `ranks`
  for (std::uint32_t place = 0; place < ranks.size(); ++place) {
    const Sample<double>& time = ranks[place].micro_batch_time;
    if (!time.is_known()) continue;
    times.push_back(time.value);
    summary.age = std::max(summary.age, time.age);
    known.push_back(place);
  }
  summary.micro_batch_time = median(times);
  if (summary.micro_batch_time > 0) {
    for (double& time : times) time = std::abs(time / summary.micro_batch_time - 1);
    summary.deviation = 1.4826 * median(times);
  }
  const auto end = known.begin() + std::min<std::ptrdiff_t>(latest, std::ssize(known));
  std::partial_sort(known.begin(), end, known.end(), [&ranks](std::uint32_t a, std::uint32_t b) {
    const double of_a = ranks[a].micro_batch_time.value, of_b = ranks[b].micro_batch_time.value;
    return of_a > of_b || (of_a == of_b && ranks[a].rank < ranks[b].rank);
  });
  slowest.clear();
  for (auto each = known.begin(); each != end; ++each) slowest.push_back(ranks[*each]);
  summary.latest = slowest;
  return summary;
}

}  // namespace orrery

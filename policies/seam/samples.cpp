#include "policies/seam/samples.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

/// The lower median; `values` is reordered. 0 without values.
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
  slowest.clear();
  for (const RankSample& sample : ranks) {
    if (!sample.micro_batch_time.known()) continue;
    times.push_back(sample.micro_batch_time.value);
    summary.age = std::max(summary.age, sample.micro_batch_time.age);
    slowest.push_back(sample);
  }
  summary.micro_batch_time = median(times);
  if (summary.micro_batch_time > 0) {
    for (double& time : times) time = std::abs(time / summary.micro_batch_time - 1);
    summary.deviation = 1.4826 * median(times);
  }
  const auto end = slowest.begin() + std::min<std::ptrdiff_t>(latest, std::ssize(slowest));
  std::partial_sort(slowest.begin(), end, slowest.end(), [](const auto& a, const auto& b) {
    return a.micro_batch_time.value > b.micro_batch_time.value ||
           (a.micro_batch_time.value == b.micro_batch_time.value && a.rank < b.rank);
  });
  slowest.erase(end, slowest.end());
  summary.latest = slowest;
  return summary;
}

}  // namespace orrery

#include "sim/forecast/weighted_durations.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::sim {
namespace {

constexpr double kLongestUnknown_s = 1e9;

}  // namespace

double unknown_duration(double median_s, double error, double u) {
  const double shape = error / std::log(4.0);
  return std::clamp(median_s * std::pow(u / (1 - u), shape), std::min(median_s, 1.0),
                    std::max(median_s, kLongestUnknown_s));
}

void spread_running(const WeightedDurations& running, WeightedDurations& weighted) {
  std::sort(weighted.begin(), weighted.end());
  double left = 0;
  for (const auto& [elapsed_s, weight] : running) left += weight;
  for (const auto& [duration_s, weight] : weighted) left += weight;
  double factor = 1;
  auto each = weighted.begin();
  for (const auto& [elapsed_s, weight] : running) {
    for (; each != weighted.end() && each->first <= elapsed_s; ++each) {
      left -= each->second;
      each->second *= factor;
    }
    left -= weight;
    if (left > 1e-9) factor *= 1 + weight / left;
  }
  if (each == weighted.end() && !running.empty()) {
    weighted.emplace_back(2 * running.back().first, factor);
    return;
  }
  for (; each != weighted.end(); ++each) each->second *= factor;
}

}  // namespace orrery::sim

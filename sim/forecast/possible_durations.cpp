#include "sim/forecast/possible_durations.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace orrery::sim {
namespace {

constexpr int kUnknown = 16;  // unknown durations of one kind; the last has the rest of the weight
constexpr double kScale_s = 3600;  // median of the unknown durations before any end

}  // namespace

// ---- one kind -------------------------------------------------------------------------------

double PossibleDurations::Drawn::share_above(double elapsed_s) const {
  const auto above = std::upper_bound(durations_s.begin(), durations_s.end(), elapsed_s);
  if (above == durations_s.end()) return 0;
  if (above == durations_s.begin()) return 1;
  return 1 - sums[static_cast<std::size_t>(above - durations_s.begin()) - 1] / sums.back();
}

double PossibleDurations::Drawn::quantile_above(double elapsed_s, double u) const {
  const auto above = std::upper_bound(durations_s.begin(), durations_s.end(), elapsed_s);
  const auto begin = sums.begin() + (above - durations_s.begin());
  const double below = begin == sums.begin() ? 0 : *std::prev(begin);
  const double target = below + u * (sums.back() - below);
  const auto at = std::partition_point(begin, std::prev(sums.end()),
                                       [target](double sum) { return sum <= target; });
  return durations_s[static_cast<std::size_t>(at - sums.begin())];
}

/// Returns a weight of mean 1: exponential, as in the Bayesian bootstrap.
double PossibleDurations::draw_weight() { return -std::log(1 - rng_.uniform()); }

/// Adds a draw of the unknown durations, together as one job: atoms with the weights of broken
/// sticks (Sethuraman 1994, concentration 1).
void PossibleDurations::add_unknown(double median_s, double error, WeightedDurations& weighted) {
  double left = draw_weight();
  for (int i = 0; i < kUnknown; ++i) {
    const double weight = i + 1 < kUnknown ? left * rng_.uniform() : left;
    left -= weight;
    const double u = std::clamp(rng_.uniform(), 1e-9, 1 - 1e-9);
    weighted.emplace_back(unknown_duration(median_s, error, u), weight);
  }
}

const PossibleDurations::Drawn& PossibleDurations::drawn_kind(const DurationModel::Weighted& of) {
  const auto [found, is_new] = kinds_.try_emplace(of.kind);
  Drawn& drawn = found->second;
  if (!is_new) return drawn;
  const DurationModel::Kind& kind = *of.kind;
  WeightedDurations weighted;
  for (const double duration_s : kind.sorted) weighted.emplace_back(duration_s, draw_weight());
  add_unknown(kind.median(), of.error, weighted);
  WeightedDurations running;
  if (!kind.is_full()) {
    for (const double elapsed_s : kind.running) running.emplace_back(elapsed_s, draw_weight());
  }
  spread_running(running, weighted);
  double sum = 0;
  for (const auto& [duration_s, weight] : weighted) {
    drawn.durations_s.push_back(duration_s);
    drawn.sums.push_back(sum += weight);
  }
  return drawn;
}

/// Returns the unknown durations around the median kScale_s, for jobs before any end.
const PossibleDurations::Drawn& PossibleDurations::unknown_kind() {
  const auto [found, is_new] = kinds_.try_emplace(nullptr);
  Drawn& drawn = found->second;
  if (!is_new) return drawn;
  WeightedDurations weighted;
  add_unknown(kScale_s, DurationModel::kUnknownError, weighted);
  std::sort(weighted.begin(), weighted.end());
  double sum = 0;
  for (const auto& [duration_s, weight] : weighted) {
    drawn.durations_s.push_back(duration_s);
    drawn.sums.push_back(sum += weight);
  }
  return drawn;
}

// ---- one job --------------------------------------------------------------------------------

double PossibleDurations::draw_duration(const DurationModel::JobKinds& job, double elapsed_s,
                                        double u) {
  double duration_s = elapsed_s / (1 - u), sum = 0;
  shares_.clear();
  for (const DurationModel::Weighted& each : job.kinds) {
    const double share = drawn_kind(each).share_above(elapsed_s / each.factor);
    shares_.push_back(sum += each.weight * share);
  }
  if (sum > 0) {
    const auto at = std::partition_point(shares_.begin(), std::prev(shares_.end()),
                                         [&](double share) { return share <= which_ * sum; });
    const DurationModel::Weighted& chosen =
        job.kinds[static_cast<std::size_t>(at - shares_.begin())];
    duration_s = chosen.factor * drawn_kind(chosen).quantile_above(elapsed_s / chosen.factor, u);
    duration_s = std::max(duration_s, elapsed_s);
  } else if (job.kinds.empty()) {
    const Drawn& unknown = unknown_kind();
    const double scale = job.guess_s / kScale_s;
    if (unknown.share_above(elapsed_s / scale) > 0) {
      duration_s = scale * unknown.quantile_above(elapsed_s / scale, u);
    }
  }
  return job.limit_s > 0 ? std::min(duration_s, std::max(job.limit_s, elapsed_s)) : duration_s;
}

}  // namespace orrery::sim

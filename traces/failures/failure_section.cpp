#include "traces/failures/failure_section.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/ids.hpp"

namespace orrery {
namespace {

constexpr std::size_t kGroups = 50;
constexpr double kLongest_s = 9e9;

double rounded(double value, double digits) {
  if (value == 0) return 0;
  const double scale = std::pow(10, digits - std::ceil(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

/// Whole seconds from 10 s on.
Nanos rounded_time(double seconds) {
  if (seconds >= 10) return to_nanos(std::min(kLongest_s, std::round(seconds)));
  return to_nanos(std::min(kLongest_s, std::max(1e-3, rounded(seconds, 4))));
}

DurationDistribution distribution_of(std::vector<double> times) {
  DurationDistribution out;
  std::sort(times.begin(), times.end());
  const double middle = times[times.size() / 2];
  if (times.back() - times.front() <= 0.01 * middle) {
    out.set_fixed(middle > 0 ? rounded_time(middle) : 0);
    return out;
  }
  const RecoveryModel best = learn_recovery(times, Rng(1)).best;
  if (best.shape == RecoveryShape::log_normal) {
    out.set_median(rounded_time(std::exp(best.mu)));
    out.set_sigma(rounded(best.sigma, 4));
    return out;
  }
  // Means of groups of equal size keep the mean, which quantiles of a long tail do not.
  const std::size_t count = std::min(times.size(), kGroups);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = i * times.size() / count, end = (i + 1) * times.size() / count;
    double sum = 0;
    for (std::size_t j = first; j < end; ++j) sum += times[j];
    out.add_values(rounded_time(sum / static_cast<double>(end - first)));
  }
  return out;
}

/// Number of parts of this kind; for parts of the fabric, as many as the log names.
double parts_of(const CauseFit& cause, double nodes, double gpus_per_node) {
  switch (cause.like.part) {
    case FailingPart::job: return 1;
    case FailingPart::node: return nodes;
    case FailingPart::gpu:
    case FailingPart::nic: return nodes * gpus_per_node;
    default: return cause.highest_index + 1.0;
  }
}

void set_effect(FailureKind& kind, const Incident& like) {
  if (like.rate)
    kind.set_rate(*like.rate);
  else if (like.part != FailingPart::job)
    kind.set_down(true);
  else if (like.stops)
    kind.set_stop(true);
  else
    kind.set_kill(true);
}

/// Sets the repair, detection and restart times of the kind. The restart begins at the detection.
void set_times(FailureKind& kind, const CauseFit& cause) {
  if (!cause.repair_s.empty()) *kind.mutable_repair() = distribution_of(cause.repair_s);
  const FailingPart part = cause.like.part;
  const bool ends_ranks =
      !cause.like.rate &&
      (part == FailingPart::job || part == FailingPart::node || part == FailingPart::gpu);
  if (!ends_ranks) return;
  std::vector<double> restart = cause.down_s;
  const bool detected = cause.detection_s.size() == restart.size();
  for (std::size_t i = 0; detected && i < restart.size(); ++i) restart[i] -= cause.detection_s[i];
  *kind.mutable_detection() =
      distribution_of(detected ? cause.detection_s : std::vector<double>{0});
  *kind.mutable_restart() = distribution_of(std::move(restart));
}

}  // namespace

Failures failure_section(const FailureFit& fit, std::uint32_t nodes, std::uint32_t gpus_per_node) {
  Failures out;
  const LemonFit& lemons = fit.lemons;
  if (lemons.share > 0) {
    out.mutable_lemons()->set_share(rounded(lemons.share, 3));
    out.mutable_lemons()->set_times(rounded(lemons.times, 3));
  }
  for (const CauseFit& cause : fit.causes) {
    FailureKind& kind = *out.add_kinds();
    const FailingPart part = cause.like.part;
    kind.set_cause(cause.like.cause);
    kind.set_part(std::string(name_of(part)));
    const bool on_lemons =
        part == FailingPart::node || part == FailingPart::gpu || part == FailingPart::nic;
    const double extra = on_lemons ? 1 + lemons.share * (lemons.times - 1) : 1;
    FailureCount& counted = *kind.mutable_counted();
    counted.set_count(rounded(static_cast<double>(cause.count) / extra, 4));
    counted.set_parts(parts_of(cause, nodes, gpus_per_node));
    counted.set_time(rounded(fit.end_s - fit.begin_s, 6));
    set_effect(kind, cause.like);
    set_times(kind, cause);
  }
  return out;
}

}  // namespace orrery

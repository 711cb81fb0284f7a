#include "traces/scenario/duration.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

/// Nine of ten standard normal numbers are below.
constexpr double kNormal90 = 1.2815515655446004;
constexpr double kLongest = 9e18;

}  // namespace

std::string duration_problem(const DurationDistribution& of) {
  const int forms =
      (of.has_fixed() ? 1 : 0) + (of.has_median() ? 1 : 0) + (of.values().empty() ? 0 : 1);
  if (forms != 1) return "expected one of fixed, median and values";
  if (!of.has_median()) {
    return of.has_sigma() || of.has_p90() ? "sigma and p90 belong to a median" : "";
  }
  if (of.has_sigma() == of.has_p90()) return "expected one of sigma and p90 beside the median";
  if (of.has_p90() && of.p90() < of.median()) return "expected a p90 of at least the median";
  return "";
}

double log_deviation(const DurationDistribution& of) {
  if (of.has_sigma()) return of.sigma();
  return std::log(static_cast<double>(of.p90()) / static_cast<double>(of.median())) / kNormal90;
}

Nanos draw_duration(const DurationDistribution& of, Rng& rng) {
  if (of.has_fixed()) return of.fixed();
  if (!of.values().empty()) {
    const auto which = rng.below(static_cast<std::uint64_t>(of.values_size()));
    return of.values(static_cast<int>(which));
  }
  const double factor = std::exp(log_deviation(of) * rng.normal());
  return static_cast<Nanos>(std::min(static_cast<double>(of.median()) * factor, kLongest));
}

}  // namespace orrery

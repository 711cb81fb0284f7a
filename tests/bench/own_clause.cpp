#include "tests/bench/own_clause.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace orrery {
namespace {

constexpr double kLeastCoverage = 0.7, kMostCoverage = 0.9;

}  // namespace

std::vector<double> least_errors(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::vector<double> bounds;
  for (std::size_t count = 1; count <= values.size(); ++count) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i + count <= values.size(); ++i) {
      // The best prediction is as far above the fastest run as below the slowest, relatively.
      least = std::min(least, std::tanh((values[i + count - 1] - values[i]) / 2));
    }
    bounds.push_back(least);
  }
  return bounds;
}

bool is_halved(const FamilyResult& of) { return of.after <= of.before / 2; }

bool is_as_promised(const FamilyResult& of) {
  if (of.before <= kLargeError) return of.after <= of.before + kPoint;
  return is_halved(of) || of.least > of.before / 2;
}

double mean_coverage(const std::vector<FamilyResult>& families) {
  double covered = 0;
  for (const FamilyResult& each : families) covered += each.covered;
  return covered / static_cast<double>(families.size());
}

std::vector<std::string> broken_promises(std::size_t runs,
                                         const std::vector<FamilyResult>& families) {
  std::vector<std::string> broken;
  if (runs == kJudgedRuns) {
    for (const FamilyResult& each : families) {
      if (is_as_promised(each)) continue;
      const double most = each.before > kLargeError ? each.before / 2 : each.before + kPoint;
      broken.push_back(fmt::format(
          "{}: expected an error of at most {:.1f}% with {} runs, found {:.1f}% ({:.1f}% with "
          "none, at least {:.1f}% for any predictor from these columns)",
          each.name, 100 * most, runs, 100 * each.after, 100 * each.before, 100 * each.least));
    }
  }
  if (families.size() >= kLeastFamilies) {
    const double covered = mean_coverage(families);
    if (covered < kLeastCoverage || covered > kMostCoverage) {
      broken.push_back(
          fmt::format("{} runs: expected {:.0f} to {:.0f}% of the other runs inside their 80% "
                      "intervals, found {:.1f}%",
                      runs, 100 * kLeastCoverage, 100 * kMostCoverage, 100 * covered));
    }
  }
  return broken;
}

}  // namespace orrery

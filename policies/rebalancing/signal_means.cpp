#include "policies/rebalancing/signal_means.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "core/processor/vector_clones.hpp"
#include "policies/rebalancing/rank_loops.hpp"

// Compiled with -O3 -ffp-contract=off: the loops over ranks become instructions on whole vectors,
// and every variant computes the same bits.

namespace orrery {
namespace {

/// Distance of the bounds of the median rank's change from its last change, as a fraction of the
/// largest small change: the closer the bounds, the more small changes are seen to be small, and
/// the sooner the median rank is beyond a bound.
constexpr double kSlack = 1.0 / 16;

/// Fills `out` with means; a mean of no value is not a number.
ORRERY_VECTORS void fill_means(const double* sum, const double* count, std::span<double> out) {
  double* const to = out.data();
  const std::size_t size = out.size();
  for (std::size_t i = 0; i < size; ++i) to[i] = sum[i] / count[i];
}

/// Means of a signal in the step before, and sums and counts in the current step, by rank.
struct Means {
  const double *before, *sum, *count;
};

/// Bounds of the change of the median rank, and the square of the largest change that is small.
struct Bounds {
  double low, high, limit;
};

/// Numbers of changes; a change that is not a number counts as unknown alone.
struct Counts {
  std::uint64_t unknown = 0;
  std::uint64_t below_low = 0, below_high = 0;  ///< below the bounds
  std::uint64_t large = 0;  ///< changes that exceed the limit for a median between the bounds
};

/// Fills `out` with the changes of the means, and counts them.
ORRERY_VECTORS Counts subtract_means(const Means& means, const Bounds& bounds,
                                     std::span<double> out) {
  const auto [before, sum, count] = means;
  const auto [low, high, limit] = bounds;
  double* __restrict const to = out.data();
  const std::size_t size = out.size();
  std::uint64_t unknown = 0, below_low = 0, below_high = 0, large = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const double change = sum[i] / count[i] - before[i];
    const double most = change - low, least = change - high;
    unknown += change != change ? 1 : 0;
    below_low += change < low ? 1 : 0;
    below_high += change < high ? 1 : 0;
    large += (most * most > limit) | (least * least > limit) ? 1 : 0;
    to[i] = change;
  }
  return {unknown, below_low, below_high, large};
}

/// Subtracts the common change; values that are not a number become 0.
ORRERY_VECTORS void subtract_common(double common, std::span<double> values) {
  for (double& value : values) {
    const double change = value - common;
    const double limited = change < -1 ? -1 : change > 1 ? 1 : change;
    value = change == change ? limited : 0;
  }
}

}  // namespace

void StepSignals::clear(std::size_t ranks) {
  for (Signal& each : signals_) {
    each.sum.assign(ranks, 0);
    each.count.assign(ranks, 0);
    each.mean.clear();
  }
}

void StepSignals::add_values(std::size_t signal, std::span<const double> values, double least,
                             double most) {
  Signal& to = signals_[signal];
  add_usable(values, least, most, to.sum.data(), to.count.data());
  to.mean.clear();
}

const std::vector<double>& StepSignals::means_of(const Signal& signal) {
  if (signal.mean.size() != signal.sum.size()) {
    signal.mean.resize(signal.sum.size());
    fill_means(signal.sum.data(), signal.count.data(), signal.mean);
  }
  return signal.mean;
}

void StepSignals::compute_changes(const StepSignals& before, const StepSignals& current,
                                  std::size_t signal, ChangeColumn& out) {
  compute_large_changes(before, current, signal, -1, out);
}

void StepSignals::compute_large_changes(const StepSignals& before, const StepSignals& current,
                                        std::size_t signal, double limit, ChangeColumn& out) {
  const Signal& is = current.signals_[signal];
  std::vector<double>& values = out.values;
  values.resize(is.sum.size());
  const double slack = limit > 0 ? kSlack * std::sqrt(limit) : 0;
  const Bounds bounds{out.common - slack, out.common + slack, limit};
  const Counts counts = subtract_means(
      {means_of(before.signals_[signal]).data(), is.sum.data(), is.count.data()}, bounds, values);
  const std::size_t count = values.size() - counts.unknown;
  // The larger the change of the median rank, the smaller each difference, rounded or not: if the
  // bounds enclose that change, they enclose each difference.
  const std::size_t nth = (std::max<std::size_t>(count, 1) - 1) / 2;
  const bool enclosed = counts.below_low <= nth && nth < counts.below_high;
  out.small = limit >= 0 && counts.large == 0 && (enclosed || count == 0);
  if (out.small) return;
  std::span<const double> known = values;
  if (count < values.size()) {
    out.known.resize(values.size());
    std::size_t place = 0;
    for (const double value : values) {
      out.known[place] = value;
      place += value == value ? 1 : 0;
    }
    known = std::span(out.known).first(count);
  }
  out.common = lower_median(known, out.guess);
  subtract_common(out.common, values);
}

}  // namespace orrery

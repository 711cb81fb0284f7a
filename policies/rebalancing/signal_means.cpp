#include "policies/rebalancing/signal_means.hpp"

#include <cstdint>
#include <span>

#include "core/processor/vector_clones.hpp"
#include "policies/rebalancing/rank_loops.hpp"
#include "policies/seam/lower_median.hpp"

// Compiled with -O3 -ffp-contract=off: the loops over ranks become instructions on whole vectors,
// and every variant computes the same bits.

namespace orrery {
namespace {

/// Fills `out` with means; a mean of no value is not a number.
ORRERY_VECTORS void fill_means(const double* sum, const double* count, std::span<double> out) {
  double* const to = out.data();
  const std::size_t size = out.size();
  for (std::size_t i = 0; i < size; ++i) to[i] = sum[i] / count[i];
}

/// Fills `out` with the differences of means from those before. Returns the number of differences
/// that are not a number.
ORRERY_VECTORS std::size_t subtract_means(const double* before, const double* sum,
                                          const double* count, std::span<double> out) {
  double* __restrict const to = out.data();
  const std::size_t size = out.size();
  std::uint64_t unknown = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const double change = sum[i] / count[i] - before[i];
    unknown += change != change ? 1 : 0;
    to[i] = change;
  }
  return unknown;
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

void StepSignals::compute_changes(const StepSignals& before, const StepSignals& current,
                                  std::size_t signal, std::vector<double>& out) {
  const Signal &was = before.signals_[signal], &is = current.signals_[signal];
  if (was.mean.size() != was.sum.size()) {
    was.mean.resize(was.sum.size());
    fill_means(was.sum.data(), was.count.data(), was.mean);
  }
  out.resize(is.sum.size());
  const std::size_t unknown = subtract_means(was.mean.data(), is.sum.data(), is.count.data(), out);
  if (unknown == 0) return subtract_common(lower_median(out), out);
  std::vector<double> known(out.size());
  std::size_t count = 0;
  for (const double value : out) {
    known[count] = value;
    count += value == value ? 1 : 0;
  }
  subtract_common(lower_median(std::span(known).first(count)), out);
}

}  // namespace orrery

#include "live/training/fixed_point.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

constexpr double kUnits = static_cast<double>(std::int64_t{1} << FixedPointSum::kFractionBits);

}  // namespace

void FixedPointSum::clear() { std::fill(units_.begin(), units_.end(), 0); }

void FixedPointSum::add(std::span<const float> term) {
  ensure(term.size() == units_.size(), "terms of a sum have one size");
  bool fits = true;
  for (std::size_t i = 0; i < term.size(); ++i) {
    const float value = term[i];
    const bool small = std::fabs(value) <= kLargestTerm;  // false for NaN
    fits = fits && small;
    // Exact product; the conversion rounds towards zero, alike everywhere.
    units_[i] += static_cast<std::int64_t>(static_cast<double>(small ? value : 0) * kUnits);
  }
  if (fits) return;
  throw Error(ErrorKind::environment,
              fmt::format("a gradient is no number or above {}: training diverges, or set "
                          "live.reproducible to false",
                          kLargestTerm));
}

double FixedPointSum::square() const {
  double sum = 0;
  for (const std::int64_t units : units_) {
    const double value = static_cast<double>(units) / kUnits;
    sum += value * value;
  }
  return sum;
}

void FixedPointSum::store(std::span<float> sum) const {
  ensure(sum.size() == units_.size(), "a sum has the size of its terms");
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = static_cast<float>(static_cast<double>(units_[i]) / kUnits);
  }
}

}  // namespace orrery::live

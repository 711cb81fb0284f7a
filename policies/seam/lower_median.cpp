#include "policies/seam/lower_median.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/processor/vector_clones.hpp"

// Compiled with -O3, so that loops over all values become instructions on whole vectors.

namespace orrery {
namespace {

/// Number of values from which on a part of them is drawn to find values near the median.
constexpr std::size_t kManyValues = 256, kSomeValues = 2048;
/// Root of the number of values that are drawn from very many.
constexpr std::size_t kMostRoot = 32;
/// The drawn values between which the median lies almost certainly are this many standard
/// deviations from the middle of the drawn values.
constexpr std::size_t kDeviations = 4;
/// Values near the median that are sorted, as a fraction of all: one of so many.
constexpr std::size_t kFraction = 64;
/// Values near the median for which no memory is allocated.
constexpr std::size_t kMostOnStack = 512;

/// Returns the value of rank `nth`; reorders the values.
double nth_of(std::span<double> values, std::size_t nth) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(nth);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

ORRERY_VECTORS std::size_t count_below(std::span<const double> values, double limit) {
  std::uint64_t count = 0;
  for (const double value : values) count += value < limit ? 1 : 0;
  return count;
}

/// Writes the values from `least` on and below `limit` to `out`, which has room for one more.
/// Without branches, since they are hard to predict.
void copy_between(std::span<const double> values, double least, double limit, double* out) {
  std::size_t count = 0;
  for (const double value : values) {
    out[count] = value;
    count += static_cast<std::size_t>((value >= least) & (value < limit));
  }
}

/// Value with the number of all values below it.
struct Bound {
  std::size_t drawn = 0;  ///< place among the drawn values
  std::size_t below = 0;
};

/// Returns the value of rank `nth` if it lies between the middle ones of the drawn values.
bool find_near(std::span<const double> values, std::size_t nth, double& found) {
  // root x root values are drawn: of few values, a sort of many drawn ones costs too much.
  const std::size_t root = values.size() < kSomeValues ? 4 : values.size() < 65536 ? 8 : kMostRoot;
  const std::size_t stride = (values.size() / (root * root) - 1) | 1;  // groups repeat evenly
  std::array<double, kMostRoot * kMostRoot> memory;
  const std::span<double> drawn(memory.data(), root * root);
  for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i] = values[i * stride];
  std::sort(drawn.begin(), drawn.end());
  const auto bound_at = [&](std::size_t place) {
    return Bound{place, count_below(values, drawn[place])};
  };
  const std::size_t off = std::min(kDeviations * root / 2, drawn.size() / 2 - 1);
  Bound low = bound_at(drawn.size() / 2 - off), high = bound_at(drawn.size() / 2 + off);
  if (low.below > nth || high.below <= nth) return false;
  while (high.drawn - low.drawn > 1 && high.below - low.below > values.size() / kFraction) {
    const std::size_t width = high.drawn - low.drawn;
    const std::size_t ahead = width * (nth - low.below) / (high.below - low.below);
    const Bound middle = bound_at(low.drawn + std::clamp<std::size_t>(ahead, 1, width - 1));
    (middle.below <= nth ? low : high) = middle;
  }
  const std::size_t count = high.below - low.below;
  std::array<double, kMostOnStack> few;
  std::vector<double> many(count < few.size() ? 0 : count + 1);
  double* const near = many.empty() ? few.data() : many.data();
  copy_between(values, drawn[low.drawn], drawn[high.drawn], near);
  found = nth_of({near, count}, nth - low.below);
  return true;
}

}  // namespace

double lower_median(std::span<const double> values) {
  if (values.empty()) return 0;
  const std::size_t nth = (values.size() - 1) / 2;
  double found = 0;
  if (values.size() >= kManyValues && find_near(values, nth, found)) return found;
  std::vector<double> all(values.begin(), values.end());
  return nth_of(all, nth);
}

}  // namespace orrery

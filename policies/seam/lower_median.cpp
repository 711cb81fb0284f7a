#include "policies/seam/lower_median.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
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
constexpr std::size_t kMostOnStack = 4096;
/// A guess reaches to either side of the median by about so many values, at most this many times
/// the root of the number of values: the place of a median of as many new values with the same
/// noise moves by 0.7 times the root.
constexpr double kLeastAside = 6, kMostRootsAside = 2;
/// A guess reaches as far as this many times the newest move of the median.
constexpr double kMovesAside = 4;
/// Number of values that are compared before the values near the median are copied, and number of
/// marks that are examined at once.
constexpr std::size_t kBlock = 1024, kTogether = sizeof(std::uint64_t);

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

/// Sets the mark of each value from `least` on and below `limit` to 1, that of others to 0.
ORRERY_VECTORS void mark_between(std::span<const double> values, double least, double limit,
                                 std::uint8_t* marks) {
  const double* const from = values.data();
  std::uint8_t* __restrict const to = marks;
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = static_cast<std::uint8_t>((from[i] >= least) & (from[i] < limit));
  }
}

/// Numbers of values below a range and in the range.
struct Between {
  std::size_t below = 0, count = 0;
};

/// Counts the values below `least`, and from `least` on below `limit`. Copies the latter to `out`
/// as long as `out` has room for kTogether more.
Between copy_between(std::span<const double> values, double least, double limit,
                     std::span<double> out) {
  std::array<std::uint8_t, kBlock> marks;
  Between found;
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const auto block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    found.below += count_below(block, least);
    mark_between(block, least, limit, marks.data());
    const std::size_t end = (block.size() + kTogether - 1) / kTogether * kTogether;
    std::fill(marks.begin() + block.size(), marks.begin() + end, std::uint8_t{0});
    for (std::size_t i = 0; i < block.size(); i += kTogether) {
      std::uint64_t together = 0;
      std::memcpy(&together, marks.data() + i, kTogether);
      if (together == 0) continue;
      if (found.count + kTogether > out.size()) {
        found.count += static_cast<std::size_t>(std::popcount(together));
        continue;
      }
      // Without branches, since they are hard to predict.
      for (std::size_t j = i; j < std::min(i + kTogether, block.size()); ++j) {
        out[found.count] = block[j];
        found.count += marks[j];
      }
    }
  }
  return found;
}

/// Returns the least number above `value`.
double number_above(double value) {
  return std::nextafter(value, std::numeric_limits<double>::infinity());
}

/// Moves a guess to a median that was found among the `count` > 0 values of its range. The reach at
/// most halves, so that it follows the larger moves.
void center_guess(MedianGuess& guess, double median, std::size_t count, std::size_t of_all) {
  const double width = guess.high - guess.low, value_width = width / static_cast<double>(count);
  const double most = kMostRootsAside * std::sqrt(static_cast<double>(of_all)) * value_width;
  const double move = std::abs(median - guess.low - width / 2);
  const double wish = std::max({kLeastAside * value_width, width / 4, kMovesAside * move});
  const double reach = std::min(wish, most);
  guess = {median - reach, std::max(median + reach, number_above(median))};
}

/// Returns true and sets `found` if the value of rank `nth` lies in the range of the guess, which
/// must not contain too many values that differ.
bool find_guessed(std::span<const double> values, std::size_t nth, MedianGuess& guess,
                  double& found) {
  if (!(guess.low < guess.high)) return false;
  std::array<double, kMostOnStack> near;
  const Between between = copy_between(values, guess.low, guess.high, near);
  if (nth < between.below || nth >= between.below + between.count) return false;
  if (number_above(guess.low) == guess.high) {
    found = guess.low;  // all values of the range are equal
  } else if (between.count + kTogether <= near.size()) {
    found = nth_of(std::span(near).first(between.count), nth - between.below);
  } else {
    return false;
  }
  center_guess(guess, found, between.count, values.size());
  return true;
}

/// Value with the number of all values below it.
struct Bound {
  std::size_t drawn = 0;  ///< place among the drawn values
  std::size_t below = 0;
};

/// Returns true and sets `found` if the value of rank `nth` lies between the middle ones of the
/// drawn values. Moves the guess to the value then.
bool find_near(std::span<const double> values, std::size_t nth, MedianGuess& guess,
               double& found) {
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
  const std::size_t room = count + kTogether;
  std::vector<double> many(room <= few.size() ? 0 : room);
  const std::span<double> near = many.empty() ? std::span<double>(few) : std::span<double>(many);
  guess = {drawn[low.drawn], drawn[high.drawn]};
  copy_between(values, guess.low, guess.high, near);
  found = nth_of(near.first(count), nth - low.below);
  center_guess(guess, found, count, values.size());
  return true;
}

}  // namespace

double lower_median(std::span<const double> values, MedianGuess& guess) {
  if (values.empty()) return 0;
  const std::size_t nth = (values.size() - 1) / 2;
  double found = 0;
  if (values.size() >= kManyValues) {
    if (find_guessed(values, nth, guess, found)) return found;
    if (find_near(values, nth, guess, found)) return found;
  }
  std::vector<double> all(values.begin(), values.end());
  found = nth_of(all, nth);
  guess = {found, number_above(found)};  // right as long as so many values are equal
  return found;
}

double lower_median(std::span<const double> values) {
  MedianGuess none;
  return lower_median(values, none);
}

}  // namespace orrery

#include "policies/rebalancing/rank_loops.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/processor/vector_clones.hpp"

// Compiled with -O3 -ffp-contract=off.

namespace orrery {

ORRERY_VECTORS bool counts_up(std::span<const std::uint32_t> numbers) {
  std::uint32_t different = 0;
  const auto count = static_cast<std::uint32_t>(numbers.size());
  for (std::uint32_t i = 0; i < count; ++i) different |= numbers[i] ^ i;
  return different == 0;
}

ORRERY_VECTORS bool are_equal(std::span<const Step> steps) {
  if (steps.empty()) return true;
  const Step first = steps[0];
  Step different = 0;
  for (const Step step : steps) different |= step ^ first;
  return different == 0;
}

ORRERY_VECTORS std::uint64_t least_of(std::span<const std::uint64_t> numbers) {
  std::uint64_t least = ~std::uint64_t{0};
  for (const std::uint64_t number : numbers) least = number < least ? number : least;
  return least;
}

ORRERY_VECTORS void mark_news(const Progress& progress, double rounding,
                              std::span<std::uint8_t> marks) {
  const Step *const steps = progress.steps.data(), *const seen = progress.seen_steps;
  const double *const done = progress.done.data(), *const next = progress.next_done;
  std::uint8_t* __restrict const to = marks.data();
  const std::size_t count = marks.size();
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_other = steps[i] != seen[i], is_done = done[i] + rounding >= next[i];
    to[i] = static_cast<std::uint8_t>(is_other | is_done);
  }
}

ORRERY_VECTORS void mark_unsettled(const Step* settled, Step step, std::span<std::uint8_t> marks) {
  std::uint8_t* __restrict const to = marks.data();
  const std::size_t count = marks.size();
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(settled[i] != step);
}

ORRERY_VECTORS void mark_changes(std::span<const double> changes, double limit,
                                 std::span<std::uint8_t> marks) {
  const double* const from = changes.data();
  std::uint8_t* __restrict const to = marks.data();
  const std::size_t count = marks.size();
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = static_cast<std::uint8_t>(to[i] | static_cast<std::uint8_t>(from[i] * from[i] > limit));
  }
}

void find_marked(std::span<const std::uint8_t> marks, std::vector<std::uint32_t>& out) {
  constexpr std::size_t kTogether = sizeof(std::uint64_t);
  out.resize(marks.size() + 1);
  std::uint32_t* const to = out.data();
  std::size_t found = 0;
  for (std::size_t begin = 0; begin < marks.size(); begin += kTogether) {
    const std::size_t count = std::min(kTogether, marks.size() - begin);
    std::uint64_t together = 0;
    std::memcpy(&together, marks.data() + begin, count);
    if (together == 0) continue;
    for (std::size_t i = begin; i < begin + count; ++i) {
      to[found] = static_cast<std::uint32_t>(i);
      found += marks[i] != 0 ? 1 : 0;  // without branches, which are hard to predict
    }
  }
  out.resize(found);
}

ORRERY_VECTORS void add_usable(std::span<const double> values, double least, double most,
                               double* sums, double* counts) {
  const double* const from = values.data();
  double* __restrict const sum = sums, * __restrict const count = counts;
  const std::size_t size = values.size();
  for (std::size_t i = 0; i < size; ++i) {
    const bool usable = (from[i] >= least) & (from[i] <= most);
    sum[i] = usable ? sum[i] + from[i] : sum[i];
    count[i] = usable ? count[i] + 1 : count[i];
  }
}

ORRERY_VECTORS void extrapolate(std::span<const double> levels, const double* slopes, double factor,
                                std::span<double> out) {
  const double* const from = levels.data();
  double* __restrict const to = out.data();
  const std::size_t count = out.size();
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i] + factor * slopes[i];
}

ORRERY_VECTORS void find_largest(std::span<const double> values, std::size_t run,
                                 std::vector<std::uint32_t>& out) {
  constexpr std::size_t kLanes = 8;
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  out.clear();
  for (std::size_t begin = 0; begin < values.size(); begin += run) {
    const double* const from = values.data() + begin;
    const std::size_t count = std::min(run, values.size() - begin);
    const std::size_t whole = count / kLanes * kLanes;
    double largest = kLeast;
    if (whole > 0) {
      std::array<double, kLanes> most;
      most.fill(kLeast);
      for (std::size_t i = 0; i < whole; i += kLanes) {
        for (std::size_t j = 0; j < kLanes; ++j) {
          most[j] = from[i + j] > most[j] ? from[i + j] : most[j];
        }
      }
      for (const double value : most) largest = value > largest ? value : largest;
    }
    for (std::size_t i = whole; i < count; ++i) largest = from[i] > largest ? from[i] : largest;
    std::size_t place = 0;
    while (place < count && !(from[place] >= largest)) ++place;
    out.push_back(static_cast<std::uint32_t>(begin + (place < count ? place : 0)));
  }
}

namespace {

/// Counts the slopes of `size` ranks from `begin` on by which a log time changes by more than
/// `change` up to `target`.
ORRERY_VECTORS std::size_t count_far(const Slopes& ranks, std::size_t begin, std::size_t size,
                                     Step target, double change) {
  const double* const slopes = ranks.slopes + begin;
  const Step* const steps = ranks.steps + begin;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const auto ahead = static_cast<double>(target > steps[i] ? target - steps[i] : 0);
    count += std::abs(slopes[i]) * ahead > change ? 1 : 0;
  }
  return count;
}

}  // namespace

bool is_any_steep(const Slopes& ranks, Step target, double change, double confidence) {
  constexpr std::size_t kBlock = 64;
  const std::size_t all = ranks.log_times.size();
  for (std::size_t begin = 0; begin < all; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, all);
    if (count_far(ranks, begin, end - begin, target, change) == 0) continue;
    for (std::size_t i = begin; i < end; ++i) {
      const double slope = std::abs(ranks.slopes[i]);
      const auto ahead = static_cast<double>(target - std::min(target, ranks.steps[i]));
      if (slope * ahead <= change || std::isnan(ranks.log_times[i])) continue;
      if (slope > confidence * std::sqrt(std::max(ranks.variances[i], 0.0))) return true;
    }
  }
  return false;
}

}  // namespace orrery

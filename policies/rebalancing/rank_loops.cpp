#include "policies/rebalancing/rank_loops.hpp"

#include <cstddef>
#include <cstring>

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

ORRERY_VECTORS void mark_changes(const SignalChanges& signals, const Step* settled, Step step,
                                 std::span<std::uint8_t> marks) {
  const auto [a, b, c] = signals.changes;
  const auto [most_a, most_b, most_c] = signals.limits;
  std::uint8_t* __restrict const to = marks.data();
  const std::size_t count = marks.size();
  for (std::size_t i = 0; i < count; ++i) {
    const bool tells = (a[i] * a[i] > most_a) | (b[i] * b[i] > most_b) | (c[i] * c[i] > most_c);
    to[i] = static_cast<std::uint8_t>(tells | (settled[i] != step));
  }
}

void find_marked(std::span<const std::uint8_t> marks, std::vector<std::uint32_t>& out) {
  constexpr std::size_t kTogether = sizeof(std::uint64_t);
  out.clear();
  std::size_t begin = 0;
  for (; begin + kTogether <= marks.size(); begin += kTogether) {
    std::uint64_t together = 0;
    std::memcpy(&together, marks.data() + begin, kTogether);
    if (together == 0) continue;
    for (std::size_t i = begin; i < begin + kTogether; ++i) {
      if (marks[i] != 0) out.push_back(static_cast<std::uint32_t>(i));
    }
  }
  for (; begin < marks.size(); ++begin) {
    if (marks[begin] != 0) out.push_back(static_cast<std::uint32_t>(begin));
  }
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

}  // namespace orrery

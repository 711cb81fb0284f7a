#include "policies/rebalancing/shares.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace orrery {
namespace {

std::uint64_t total(const ShareList& shares) {
  return std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
}

/// The smallest makespan by trying everything.
double least_makespan(std::uint32_t left, std::span<const double> times, double fill,
                      std::uint32_t most) {
  if (times.empty()) return left == 0 ? 0 : 1e300;
  double least = 1e300;
  for (std::uint32_t n = 1; n <= std::min(left, most); ++n) {
    const double rest = least_makespan(left - n, times.subspan(1), fill, most);
    least = std::min(least, std::max((n + fill) * times[0], rest));
  }
  return least;
}

TEST(Shares, MakespanIsThatOfTheSlowestWithItsPipelineFill) {
  const ShareList shares{2, 3};
  const std::vector<double> times{0.5, 0.4};
  EXPECT_DOUBLE_EQ(makespan(shares, times, 0), 1.2);
  EXPECT_DOUBLE_EQ(makespan(shares, times, 2), 2.0);
}

TEST(Shares, ThreeTimesSlowerGetsAThird) {
  const ShareList even{10, 10, 10, 10};
  const std::vector<double> times{1, 1, 3, 1};
  EXPECT_EQ(best_shares(even, times, 0, 0), (ShareList{12, 12, 4, 12}));
  EXPECT_DOUBLE_EQ(balanced_time(40, times, 0), 12);
}

TEST(Shares, AlreadyBestStaysAsItIs) {
  const ShareList uneven{11, 9, 10, 10};  // moving back would not be faster
  const std::vector<double> times{1, 1.2, 1, 1};
  EXPECT_EQ(best_shares(uneven, times, 0, 0), uneven);
}

TEST(Shares, MemoryLimitHoldsAndImpossibleLimitChangesNothing) {
  const ShareList even{10, 10, 10, 10};
  const std::vector<double> times{1, 1, 3, 1};
  EXPECT_EQ(best_shares(even, times, 0, 11), (ShareList{11, 11, 7, 11}));
  EXPECT_EQ(best_shares(even, times, 0, 9), even);
  EXPECT_EQ(best_shares(ShareList{0, 1}, times, 0, 9), (ShareList{0, 1}));
}

RC_GTEST_PROP(SharesProperty, OptimalWithinLimits, ()) {
  const auto replicas = *rc::gen::inRange<std::size_t>(1, 5);
  const auto times_ms = *rc::gen::container<std::vector<std::uint32_t>>(
      replicas, rc::gen::inRange(1u, 2000u));
  const auto current =
      *rc::gen::container<ShareList>(replicas, rc::gen::inRange<std::uint32_t>(1, 6));
  const auto fill = *rc::gen::inRange(0, 4);
  const auto most = *rc::gen::inRange<std::uint32_t>(5, 12);
  std::vector<double> times;
  for (const std::uint32_t ms : times_ms) times.push_back(ms / 1000.0);

  const ShareList best = best_shares(current, times, fill, most);
  RC_ASSERT(total(best) == total(current));
  RC_ASSERT(*std::min_element(best.begin(), best.end()) >= 1u);
  RC_ASSERT(*std::max_element(best.begin(), best.end()) <= most);
  const double least =
      least_makespan(static_cast<std::uint32_t>(total(current)), times, fill, most);
  RC_ASSERT(makespan(best, times, fill) <= least * (1 + 1e-8));
  RC_ASSERT(makespan(best, times, fill) >= balanced_time(total(best), times, fill) * (1 - 1e-8));
}

RC_GTEST_PROP(SharesProperty, BestOfBestIsItself, ()) {
  const auto current = *rc::gen::container<ShareList>(6, rc::gen::inRange<std::uint32_t>(1, 60));
  const auto times_ms =
      *rc::gen::container<std::vector<std::uint32_t>>(6, rc::gen::inRange(1u, 50u));
  const std::vector<double> times(times_ms.begin(), times_ms.end());
  const ShareList once = best_shares(current, times, 0, 0);
  RC_ASSERT(best_shares(once, times, 0, 0) == once);
}

}  // namespace
}  // namespace orrery

#include "policies/rebalancing/shares.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

namespace orrery {
namespace {

/// Finish times closer than this (relative) count as equal: rounding must not move work.
constexpr double kSame = 1e-9;

/// Gives `left` micro-batches one by one to the replica that would finish it first. Optimal for
/// the makespan, because a later micro-batch never makes an earlier choice worse.
void hand_out(ShareList& shares, std::uint64_t left, std::span<const double> times, double fill,
              std::span<const std::uint32_t> limits) {
  using Offer = std::pair<double, std::size_t>;  // finish time with one more, replica
  std::priority_queue<Offer, std::vector<Offer>, std::greater<>> offers;
  const auto offer = [&](std::size_t i) {
    if (shares[i] < limits[i]) offers.emplace((shares[i] + 1 + fill) * times[i], i);
  };
  for (std::size_t i = 0; i < shares.size(); ++i) offer(i);
  for (; left > 0 && !offers.empty(); --left) {
    const std::size_t i = offers.top().second;
    offers.pop();
    ++shares[i];
    offer(i);
  }
}

/// Most micro-batches that fit into `time`, between 1 and `most`.
std::uint32_t fitting(double time, double per_micro_batch, double fill, std::uint32_t most) {
  const double count = std::floor(time / per_micro_batch - fill);
  return static_cast<std::uint32_t>(std::clamp(count, 1.0, static_cast<double>(most)));
}

/// Any shares with the smallest makespan.
ShareList fastest_shares(std::uint64_t total, std::span<const double> times, double fill,
                      std::uint32_t most) {
  const double bound = balanced_time(total, times, fill);
  ShareList shares(times.size(), 1);
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    shares[i] = fitting(bound * (1 - kSame), times[i], fill, most);
    given += shares[i];
  }
  if (given > total) {  // the lower limit of 1 each pushed it over: start from there
    std::fill(shares.begin(), shares.end(), 1);
    given = shares.size();
  }
  const ShareList limits(shares.size(), most);
  hand_out(shares, total - given, times, fill, limits);
  return shares;
}

}  // namespace

double makespan(std::span<const std::uint32_t> shares, std::span<const double> times,
                double fill) {
  double last = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    last = std::max(last, (shares[i] + fill) * times[i]);
  }
  return last;
}

double balanced_time(std::uint64_t total, std::span<const double> times, double fill) {
  double rate = 0;
  for (const double time : times) rate += 1 / time;
  return (static_cast<double>(total) + fill * static_cast<double>(times.size())) / rate;
}

ShareList best_shares(std::span<const std::uint32_t> current, std::span<const double> times,
                   double fill, std::uint32_t most) {
  const std::uint64_t total = std::accumulate(current.begin(), current.end(), std::uint64_t{0});
  if (most == 0) most = std::numeric_limits<std::uint32_t>::max();
  const bool possible = total >= current.size() && total <= std::uint64_t{most} * current.size();
  if (!possible) return {current.begin(), current.end()};

  const ShareList fastest = fastest_shares(total, times, fill, most);
  const double time = makespan(fastest, times, fill) * (1 + kSame);
  ShareList shares(current.size()), limits(current.size());
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    limits[i] = fitting(time, times[i], fill, most);
    shares[i] = std::clamp(current[i], 1u, limits[i]);
    given += shares[i];
  }
  if (given > total) return fastest;  // someone had none so far
  hand_out(shares, total - given, times, fill, limits);
  return shares;
}

}  // namespace orrery

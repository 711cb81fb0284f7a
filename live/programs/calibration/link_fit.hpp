// Fit of a machine's links to the measured operations of a program's process groups. Pure
// functions; thread-safe. Seconds, bytes, bytes per second.
#pragma once

#include <optional>
#include <vector>

namespace orrery::live {

/// One measured collective of a ring: among n ranks, an all-reduce of B bytes has 2 (n - 1) rounds
/// and 2 (n - 1) / n x B bytes; an all-gather, a reduce-scatter and a broadcast have half of both.
struct CollectiveTime {
  double rounds = 0;
  double bytes = 0;  ///< bytes that one rank sends to the next
  double seconds = 0;
};

/// Time of a round and rate of a rank's link.
struct FittedLinks {
  double latency_s = 0;
  double bandwidth = 0;
  double error = 0;  ///< mean of the relative errors of the fitted times
};

/// Returns the latency and the bandwidth whose times, rounds x latency + bytes / bandwidth, have
/// the least squares of relative errors; neither is negative. Nothing without a measured time above
/// 0. Small operations alone do not determine the bandwidth, which is 1 TB/s then.
std::optional<FittedLinks> fit_links(const std::vector<CollectiveTime>& times);

}  // namespace orrery::live

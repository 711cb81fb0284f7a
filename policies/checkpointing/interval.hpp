// Closed forms of the optimal checkpoint interval and of the resulting goodput. Seconds. Pure
// functions; thread-safe.
#pragma once

#include <cmath>

namespace orrery {

/// Returns the interval of J. W. Young, "A first order approximation to the optimum checkpoint
/// interval" (1974): sqrt(2 C M), with the cost C of a checkpoint and the mean time M between
/// failures; 0 for a cost of 0. For example, C = 60 s and M = 1 day give 3,220 s.
inline double young_interval(double cost, double mtbf) { return std::sqrt(2 * cost * mtbf); }

/// Returns the interval of J. T. Daly, "A higher order estimate of the optimum checkpoint interval
/// for restart dumps" (2006), equation 37: for C < 2 M it is sqrt(2 C M) (1 + 1/3 sqrt(C / 2M) +
/// 1/9 C / 2M) - C, otherwise M.
inline double daly_interval(double cost, double mtbf) {
  if (cost >= 2 * mtbf) return mtbf;
  const double ratio = cost / (2 * mtbf);
  return young_interval(cost, mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost;
}

/// Returns the fraction of the time that becomes work, with memoryless failures that also occur
/// during checkpoints and restarts: the inverse of T / W = M e^(R/M) (e^((t + C)/M) - 1) / t (Daly
/// 2006, equation 20; R: from a failure until work continues, t: work between two checkpoints).
/// `interval` is t and `mtbf` is M; `mtbf` and `interval + cost` must be above 0.
inline double expected_goodput(double interval, double cost, double restart, double mtbf) {
  return interval /
         (mtbf * std::exp(restart / mtbf) * std::expm1((interval + cost) / mtbf));
}

/// Returns the same fraction to first order (arXiv:2410.21680): (1 - (R + t/2) / M) / (1 + C / t);
/// negative if R + t/2 exceeds M. `interval` (t) and `mtbf` (M) must be above 0.
inline double expected_ettr(double interval, double cost, double restart, double mtbf) {
  return (1 - (restart + interval / 2) / mtbf) / (1 + cost / interval);
}

}  // namespace orrery

// How often to write a checkpoint, and what is left of the time then: the closed forms. Seconds.
// Pure functions; safe from any thread.
#pragma once

#include <cmath>

namespace orrery {

/// J. W. Young, "A first order approximation to the optimum checkpoint interval" (1974):
/// sqrt(2 C M) of the cost C of a checkpoint and the mean time M between failures.
inline double young_interval(double cost, double mtbf) { return std::sqrt(2 * cost * mtbf); }

/// J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps"
/// (2006), equation 37: for C < 2 M
///   sqrt(2 C M) (1 + 1/3 sqrt(C / 2M) + 1/9 C / 2M) - C,
/// and M from there on.
inline double daly_interval(double cost, double mtbf) {
  if (cost >= 2 * mtbf) return mtbf;
  const double ratio = cost / (2 * mtbf);
  return young_interval(cost, mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost;
}

/// Share of the time that becomes work, where failures are memoryless and also strike during
/// checkpoints and restarts: T / W = M e^(R/M) (e^((t + C)/M) - 1) / t (Daly 2006, equation 20; R:
/// from a failure until work goes on, t: work between two checkpoints), turned over.
inline double expected_goodput(double interval, double cost, double restart, double mtbf) {
  return interval /
         (mtbf * std::exp(restart / mtbf) * std::expm1((interval + cost) / mtbf));
}

/// The same to first order (arXiv:2410.21680): (1 - (R + t/2) / M) / (1 + C / t).
inline double expected_ettr(double interval, double cost, double restart, double mtbf) {
  return (1 - (restart + interval / 2) / mtbf) / (1 + cost / interval);
}

}  // namespace orrery

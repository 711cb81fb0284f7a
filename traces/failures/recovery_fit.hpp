// Distributions of recovery times, learnt from the times of an operator's log. Three shapes are
// fitted, and the data decide how much each of them counts. Used by traces/failures/failure_fit.
// Pure functions; thread-safe. Seconds. For example, 30 recoveries of which most take minutes and
// three take a night give a mixture of two log-normal distributions.
#pragma once

#include <span>
#include <vector>

#include "core/random.hpp"

namespace orrery {

/// Shape of a distribution of recovery times.
enum class RecoveryShape { log_normal, weibull, mixture };

/// One distribution of recovery times. log_normal: exp(mu + sigma x normal). weibull: the scale is
/// exp(mu), the shape 1 / sigma. mixture: a log-normal distribution with the probability 1 - share,
/// a second one with the probability `share`.
struct RecoveryModel {
  RecoveryShape shape = RecoveryShape::log_normal;
  double mu = 0, sigma = 1;
  double share = 0, mu_2 = 0, sigma_2 = 1;  ///< second part of a mixture

  /// Returns a time drawn from the distribution, at most 9e9 s.
  double draw_time(Rng& rng) const;
  /// Returns the logarithm of the density of ln(time).
  double log_density(double log_time) const;
};

/// Distributions that agree with a number of observed times.
struct RecoveryFit {
  RecoveryModel best = {};  ///< distribution of the shape that the data support most
  std::vector<RecoveryModel> posterior = {};  ///< equally likely ones
};

/// Returns the most likely distribution of a shape for times with weights, by moments of the
/// logarithms (log-normal), Newton's method (Weibull) or expectation and maximisation (mixture).
/// `log_times`: at least two, with as many positive weights.
RecoveryModel fit_recovery(RecoveryShape shape, std::span<const double> log_times,
                           std::span<const double> weights);

/// Returns the distributions that agree with `times` (positive, at least one). Shapes have the
/// weight exp(-BIC / 2). The parameters of log-normal distributions and of the parts of a mixture
/// are drawn from their posterior, those of Weibull distributions by the weighted likelihood
/// bootstrap. `rng` decides the draws. With one time the spread is assumed: sigma is 1.
RecoveryFit learn_recovery(std::span<const double> times, Rng rng);

/// Returns a number from the gamma distribution with this shape (positive) and the scale 1, by the
/// method of Marsaglia and Tsang (2000). The mean is `shape`.
double draw_gamma(double shape, Rng& rng);
/// Returns the value below which a gamma distribution of the scale 1 has the probability `share`,
/// which is between 0 and 1. For example, gamma_quantile(1, 0.5) is ln 2.
double gamma_quantile(double shape, double share);

}  // namespace orrery

#include "traces/failures/recovery_fit.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace orrery {
namespace {

constexpr double kLongest_s = 9e9;
constexpr std::size_t kPosterior = 120;
constexpr double kLeastSigma = 1e-3;
constexpr double kLeastPartSigma = 0.05;  // a part of a mixture is no single value

double normal_log_density(double x, double mu, double sigma) {
  const double z = (x - mu) / sigma;
  return -0.5 * z * z - std::log(sigma) - 0.5 * std::log(2 * std::numbers::pi);
}

struct Moments {
  double weight = 0, mean = 0, deviation = 0;
};
Moments moments_of(std::span<const double> values, std::span<const double> weights) {
  Moments m;
  for (std::size_t i = 0; i < values.size(); ++i) {
    m.weight += weights[i];
    m.mean += weights[i] * values[i];
  }
  m.mean /= m.weight;
  for (std::size_t i = 0; i < values.size(); ++i) {
    m.deviation += weights[i] * (values[i] - m.mean) * (values[i] - m.mean);
  }
  m.deviation = std::sqrt(m.deviation / m.weight);
  return m;
}

/// Solves the condition of the most likely Weibull shape, which increases with the shape.
RecoveryModel fit_weibull(std::span<const double> x, std::span<const double> weights) {
  const Moments m = moments_of(x, weights);
  const double most = *std::max_element(x.begin(), x.end());
  double shape = std::clamp(1.2 / std::max(m.deviation, kLeastSigma), 0.05, 1e3);
  double low = 0.01, high = 1e4, power = 0;
  for (int i = 0; i < 60; ++i) {
    double first = 0, second = 0;
    power = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double term = weights[j] * std::exp(shape * (x[j] - most));
      power += term;
      first += term * x[j];
      second += term * x[j] * x[j];
    }
    const double mean = first / power;
    const double error = mean - 1 / shape - m.mean;
    if (std::abs(error) < 1e-9) break;
    (error > 0 ? high : low) = shape;
    const double slope = second / power - mean * mean + 1 / (shape * shape);
    const double next = shape - error / slope;
    shape = next > low && next < high ? next : 0.5 * (low + high);
  }
  const double mu = most + std::log(power / m.weight) / shape;
  return {.shape = RecoveryShape::weibull, .mu = mu, .sigma = 1 / shape};
}

RecoveryModel fit_mixture(std::span<const double> x, std::span<const double> weights) {
  const Moments all = moments_of(x, weights);
  std::vector<double> second(x.size()), first(x.size());
  RecoveryModel model{.shape = RecoveryShape::mixture,
                      .mu = all.mean - 0.5 * all.deviation,
                      .sigma = std::max(all.deviation * 0.7, kLeastPartSigma),
                      .share = 0.2,
                      .mu_2 = all.mean + 1.5 * all.deviation,
                      .sigma_2 = std::max(all.deviation * 0.7, kLeastPartSigma)};
  double before = -1e300;
  for (int round = 0; round < 200; ++round) {
    double likelihood = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double a = std::log1p(-model.share) + normal_log_density(x[i], model.mu, model.sigma);
      const double b = std::log(model.share) + normal_log_density(x[i], model.mu_2, model.sigma_2);
      const double most = std::max(a, b);
      const double sum = most + std::log(std::exp(a - most) + std::exp(b - most));
      second[i] = weights[i] * std::exp(b - sum);
      first[i] = weights[i] - second[i];
      likelihood += weights[i] * sum;
    }
    if (likelihood - before < 1e-6 * all.weight) break;
    before = likelihood;
    const Moments one = moments_of(x, first), two = moments_of(x, second);
    const double least = 1.5 / static_cast<double>(x.size());
    model.share = std::clamp(two.weight / all.weight, least, 1 - least);
    model.mu = one.mean;
    model.sigma = std::max(one.deviation, kLeastPartSigma);
    model.mu_2 = two.mean;
    model.sigma_2 = std::max(two.deviation, kLeastPartSigma);
  }
  return model;
}

/// Centre and spread of one log-normal distribution.
struct Normal {
  double mu = 0, sigma = 1;
};

/// Draws from the posterior, with the prior 1 / sigma^2, of a normal distribution of which `count`
/// values were observed with this mean and deviation. Of fewer than two values the spread is
/// hardly known; it is limited to a factor of e^3.
Normal draw_normal(double count, double mean, double deviation, Rng& rng) {
  constexpr double kMostSigma = 3;
  const double chi_squared = 2 * draw_gamma(0.5 * std::max(1.0, count - 1), rng);
  const double drawn = deviation * std::sqrt(count / std::max(chi_squared, 1e-9));
  const double sigma = std::clamp(drawn, kLeastSigma, std::max(kMostSigma, deviation));
  return {.mu = mean + sigma / std::sqrt(count) * rng.normal(), .sigma = sigma};
}

RecoveryModel draw_log_normal(const RecoveryModel& fit, double count, Rng& rng) {
  if (count < 2) return {.mu = fit.mu + rng.normal(), .sigma = 1};
  const Normal drawn = draw_normal(count, fit.mu, fit.sigma, rng);
  return {.mu = drawn.mu, .sigma = drawn.sigma};
}

/// Draws the parts of a mixture as if it were known which time belongs to which.
RecoveryModel draw_mixture(const RecoveryModel& fit, double count, Rng& rng) {
  const double second = count * fit.share, first = count - second;
  const double a = draw_gamma(first + 0.5, rng), b = draw_gamma(second + 0.5, rng);
  const Normal one = draw_normal(first, fit.mu, fit.sigma, rng);
  const Normal two = draw_normal(second, fit.mu_2, fit.sigma_2, rng);
  return {.shape = RecoveryShape::mixture,
          .mu = one.mu,
          .sigma = one.sigma,
          .share = b / (a + b),
          .mu_2 = two.mu,
          .sigma_2 = two.sigma};
}

/// Fits a Weibull distribution to the times with random weights (weighted likelihood bootstrap).
RecoveryModel draw_weibull(std::span<const double> x, Rng& rng) {
  std::vector<double> weights(x.size());
  for (double& each : weights) each = std::max(1e-9, -std::log1p(-rng.uniform()));
  return fit_recovery(RecoveryShape::weibull, x, weights);
}

double bic_of(const RecoveryModel& model, std::span<const double> x) {
  double likelihood = 0;
  for (const double each : x) likelihood += model.log_density(each);
  const double parameters = model.shape == RecoveryShape::mixture ? 5 : 2;
  return parameters * std::log(static_cast<double>(x.size())) - 2 * likelihood;
}

/// Regularised lower incomplete gamma function, by its series or its continued fraction.
double gamma_share(double shape, double x) {
  if (x <= 0) return 0;
  const double front = std::exp(shape * std::log(x) - x - std::lgamma(shape));
  if (x < shape + 1) {
    double term = 1 / shape, sum = term;
    for (int i = 1; i < 100'000 && term > 1e-14 * sum; ++i) sum += term *= x / (shape + i);
    return front * sum;
  }
  double b = x + 1 - shape, c = 1e300, d = 1 / b, h = d;
  for (int i = 1; i < 100'000; ++i) {
    const double a = -i * (i - shape);
    b += 2;
    d = 1 / (a * d + b);
    c = b + a / c;
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-14) break;
  }
  return 1 - front * h;
}

}  // namespace

double RecoveryModel::draw_time(Rng& rng) const {
  double log_time = 0;
  if (shape == RecoveryShape::weibull) {
    log_time = mu + sigma * std::log(-std::log1p(-rng.uniform()));
  } else if (share > 0 && rng.uniform() < share) {
    log_time = mu_2 + sigma_2 * rng.normal();
  } else {
    log_time = mu + sigma * rng.normal();
  }
  return log_time > std::log(kLongest_s) ? kLongest_s : std::exp(log_time);
}

double RecoveryModel::log_density(double log_time) const {
  if (shape == RecoveryShape::weibull) {
    const double z = (log_time - mu) / sigma;
    return z - std::exp(z) - std::log(sigma);
  }
  const double one = normal_log_density(log_time, mu, sigma);
  if (shape == RecoveryShape::log_normal) return one;
  const double two = normal_log_density(log_time, mu_2, sigma_2);
  const double a = std::log1p(-share) + one, b = std::log(share) + two;
  const double most = std::max(a, b);
  return most + std::log(std::exp(a - most) + std::exp(b - most));
}

RecoveryModel fit_recovery(RecoveryShape shape, std::span<const double> log_times,
                           std::span<const double> weights) {
  if (shape == RecoveryShape::weibull) return fit_weibull(log_times, weights);
  if (shape == RecoveryShape::mixture) return fit_mixture(log_times, weights);
  const Moments m = moments_of(log_times, weights);
  return {.mu = m.mean, .sigma = std::max(m.deviation, kLeastSigma)};
}

RecoveryFit learn_recovery(std::span<const double> times, Rng rng) {
  constexpr std::size_t kFewForMixture = 12;
  std::vector<double> x;
  for (const double each : times) x.push_back(std::log(std::max(each, 1e-3)));
  const std::vector<double> ones(x.size(), 1);
  RecoveryFit fit;
  std::vector<RecoveryModel> models{fit_recovery(RecoveryShape::log_normal, x, ones)};
  const bool spread = models[0].sigma > 10 * kLeastSigma;
  if (x.size() < 2) models[0].sigma = 1;
  if (x.size() > 3 && spread) models.push_back(fit_weibull(x, ones));
  if (x.size() >= kFewForMixture && spread) models.push_back(fit_mixture(x, ones));
  std::vector<double> bics, shares;
  for (const RecoveryModel& each : models) bics.push_back(bic_of(each, x));
  const auto least = std::min_element(bics.begin(), bics.end());
  fit.best = models[static_cast<std::size_t>(least - bics.begin())];
  for (const double each : bics) shares.push_back(std::exp(-0.5 * (each - *least)));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const auto count = static_cast<double>(x.size());
  while (fit.posterior.size() < kPosterior) {
    double at = rng.uniform() * sum;
    std::size_t which = 0;
    while (which + 1 < shares.size() && at >= shares[which]) at -= shares[which++];
    const RecoveryModel& model = models[which];
    fit.posterior.push_back(model.shape == RecoveryShape::weibull ? draw_weibull(x, rng)
                            : model.shape == RecoveryShape::mixture
                                ? draw_mixture(model, count, rng)
                                : draw_log_normal(model, count, rng));
  }
  return fit;
}

double draw_gamma(double shape, Rng& rng) {
  if (shape < 1) {
    const double root = std::pow(1 - rng.uniform(), 1 / shape);
    return draw_gamma(shape + 1, rng) * root;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double z = rng.normal(), cube = 1 + c * z;
    if (cube <= 0) continue;
    const double v = cube * cube * cube;
    if (std::log(1 - rng.uniform()) < 0.5 * z * z + d - d * v + d * std::log(v)) return d * v;
  }
}

double gamma_quantile(double shape, double share) {
  double low = 0, high = shape + 10 * std::sqrt(shape) + 50;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (gamma_share(shape, middle) < share ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace orrery

#include "sim/training/rank_noise.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/random.hpp"

namespace orrery::sim {
namespace {

constexpr double kLeastFactor = 0.1;

Rng rng_at(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  Rng outer(seed ^ (a * 0x9E3779B97F4A7C15ull));
  return Rng(outer.next() ^ (b * 0xD1B54A32D192ED03ull));
}

/// Returns a number in (0, 1): quantiles of the ends are infinite.
double open_uniform(Rng& rng) { return rng.uniform() + 0x1.0p-54; }

using Coefficients = std::array<double, 8>;  ///< coefficients of powers, ascending

double ratio(const Coefficients& above, const Coefficients& below, double x) {
  double a = 0, b = 0;
  for (std::size_t i = above.size(); i-- > 0;) {
    a = a * x + above[i];
    b = b * x + below[i];
  }
  return a / b;
}

// Coefficients for the middle (0.075 < p < 0.925), the tails, and the region beyond exp(-25) of
// them.
constexpr Coefficients kMiddleAbove{
    3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
    1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
    3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr Coefficients kMiddleBelow{
    1, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
    2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
    5.2264952788528545610e3};
constexpr Coefficients kTailAbove{
    1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
    3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
    2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr Coefficients kTailBelow{
    1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
    1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
    1.05075007164441684324e-9};
constexpr Coefficients kFarAbove{
    6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
    2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
    2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr Coefficients kFarBelow{
    1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
    7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
    2.04426310338993978564e-15};

}  // namespace

double normal_quantile(double p) {
  const double off = p - 0.5;
  if (std::abs(off) <= 0.425) {
    return off * ratio(kMiddleAbove, kMiddleBelow, 0.180625 - off * off);
  }
  const double depth = std::sqrt(-std::log(off < 0 ? p : 1 - p));
  const double far = depth <= 5 ? ratio(kTailAbove, kTailBelow, depth - 1.6)
                                : ratio(kFarAbove, kFarBelow, depth - 5);
  return off < 0 ? -far : far;
}

double normal_at(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  return rng_at(seed, a, b).normal();
}

double RankNoise::factor(double normal) const {
  return std::max(kLeastFactor, 1 + cv_ * normal);
}

/// Returns the fraction of values below the greatest of `ranks_`: each is below x with probability
/// P(x), all are with P(x)^n, so P of the greatest is the n-th root of a uniform number.
double RankNoise::share_below(Step step, std::uint32_t replica) const {
  Rng rng = rng_at(seed_, step, std::uint64_t{replica} + 1);
  return std::pow(open_uniform(rng), 1.0 / ranks_);
}

double RankNoise::slowest(Step step, std::uint32_t replica) const {
  if (ranks_ == 1) return factor(normal_at(seed_, step, std::uint64_t{replica} + 1));
  return factor(normal_quantile(share_below(step, replica)));
}

double RankNoise::of_rank(Step step, std::uint32_t replica, std::uint32_t rank) const {
  Rng which = rng_at(~seed_, step, std::uint64_t{replica} + 1);
  if (ranks_ == 1 || which.below(ranks_) == rank) return slowest(step, replica);
  Rng own = rng_at(~seed_ ^ replica, step, ~std::uint64_t{rank});
  return factor(normal_quantile(share_below(step, replica) * open_uniform(own)));
}

}  // namespace orrery::sim

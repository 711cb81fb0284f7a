// Distributions of recovery times: each shape is recognised and its parameters are found.
#include "traces/failures/recovery_fit.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace orrery {
namespace {

std::vector<double> times_of(const RecoveryModel& model, int count) {
  Rng rng(5);
  std::vector<double> times;
  for (int i = 0; i < count; ++i) times.push_back(model.draw_time(rng));
  return times;
}

TEST(RecoveryFit, EachShapeIsRecognised) {
  const RecoveryModel models[] = {
      {.shape = RecoveryShape::log_normal, .mu = 6, .sigma = 0.8},
      {.shape = RecoveryShape::weibull, .mu = 6, .sigma = 0.5},
      {.shape = RecoveryShape::mixture,
       .mu = 5,
       .sigma = 0.3,
       .share = 0.15,
       .mu_2 = 10,
       .sigma_2 = 0.6},
  };
  for (const RecoveryModel& model : models) {
    const RecoveryFit fit = learn_recovery(times_of(model, 800), Rng(1));
    ASSERT_EQ(fit.best.shape, model.shape);
    EXPECT_NEAR(fit.best.mu, model.mu, 0.15);
    EXPECT_NEAR(fit.best.sigma, model.sigma, 0.1);
    if (model.shape == RecoveryShape::mixture) {
      EXPECT_NEAR(fit.best.share, 0.15, 0.04);
      EXPECT_NEAR(fit.best.mu_2, 10, 0.25);
    }
  }
}

TEST(RecoveryFit, FewTimesLeaveTheParametersUncertain) {
  const RecoveryModel model{.mu = 6, .sigma = 0.8};
  const auto spread = [&](int count) {
    std::vector<double> centers;
    for (const RecoveryModel& each : learn_recovery(times_of(model, count), Rng(1)).posterior) {
      centers.push_back(each.mu);
    }
    std::sort(centers.begin(), centers.end());
    return centers[centers.size() * 9 / 10] - centers[centers.size() / 10];
  };
  EXPECT_GT(spread(6), 4 * spread(400));
  EXPECT_EQ(learn_recovery(std::vector<double>{600}, Rng(1)).best.sigma, 1) << "an assumption";
}

TEST(RecoveryFit, GammaQuantilesAreThoseOfTheExponentialAndTheChiSquaredDistribution) {
  EXPECT_NEAR(gamma_quantile(1, 0.5), std::log(2), 1e-9);
  EXPECT_NEAR(2 * gamma_quantile(5, 0.95), 18.307, 1e-3);
  EXPECT_NEAR(2 * gamma_quantile(0.5, 0.1), 0.015791, 1e-5);
  Rng rng(2);
  double sum = 0;
  for (int i = 0; i < 20'000; ++i) sum += draw_gamma(0.5, rng);
  EXPECT_NEAR(sum / 20'000, 0.5, 0.025);
}

}  // namespace
}  // namespace orrery

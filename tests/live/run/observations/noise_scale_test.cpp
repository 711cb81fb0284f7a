#include "live/run/observations/noise_scale.hpp"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kSize = 500;

/// Returns the reports of ranks whose gradients are sums over samples of a gradient of ones with
/// independent noise of variance `variance` in each value: the noise scale is `variance`.
std::vector<StepReport> noisy_step(Rng& rng, double variance, const std::vector<int>& samples) {
  std::vector<double> total(kSize);
  std::vector<StepReport> reports;
  for (const int count : samples) {
    double own = 0;
    for (double& sum : total) {
      const double value = count + std::sqrt(variance * count) * rng.normal();
      own += value * value;
      sum += value;
    }
    StepReport& report = reports.emplace_back();
    report.set_samples(static_cast<std::uint64_t>(count));
    report.set_own_square(own);
  }
  double all = 0;
  for (const double value : total) all += value * value;
  for (StepReport& report : reports) report.set_total_square(all);
  return reports;
}

TEST(NoiseScale, IsTheOneWithWhichTheGradientsWereDrawn) {
  for (const double variance : {3.0, 40.0}) {
    for (const std::vector<int>& samples : {std::vector<int>{8, 8, 8, 8}, {2, 4, 16, 10}}) {
      Rng rng(7);
      NoiseScale noise;
      EXPECT_FALSE(noise.value());
      for (int step = 0; step < 200; ++step) noise.add_step(noisy_step(rng, variance, samples), 32);
      ASSERT_TRUE(noise.value());
      EXPECT_NEAR(*noise.value() / variance, 1, 0.15) << variance;
    }
  }
}

TEST(NoiseScale, OneRankMeasuresNothing) {
  Rng rng(7);
  NoiseScale noise;
  noise.add_step(noisy_step(rng, 3, {8}), 8);
  EXPECT_FALSE(noise.value());
  noise.add_step({}, 8);
  EXPECT_FALSE(noise.value());
}

TEST(GradientVariance, ComparesTheMeansOfARankAndOfAll) {
  StepReport report;
  EXPECT_FALSE(gradient_variance(report, 8));
  report.set_samples(2);
  report.set_own_square(2 * 2 * 3.0);
  report.set_total_square(8 * 8 * 2.0);
  EXPECT_DOUBLE_EQ(*gradient_variance(report, 8), 0.5);
}

}  // namespace
}  // namespace orrery::live

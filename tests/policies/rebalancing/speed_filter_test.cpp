#include "policies/rebalancing/speed_filter.hpp"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

/// Feeds `samples` micro-batch times per step with the noise of the step in common.
void feed(SpeedFilter& filter, JobNoise& noise, Step from, Step to, double cv,
          const std::function<double(Step)>& seconds, int samples = 4, std::uint64_t seed = 1) {
  Rng rng(seed);
  for (Step step = from; step < to; ++step) {
    filter.advance_to(step, noise);
    const double of_step = seconds(step) * (1 + cv * rng.normal());
    for (int i = 0; i < samples; ++i)
      filter.add_measurement(of_step * (1 + cv / 2 * rng.normal()), noise);
    noise.update_noise();
  }
}

double seconds_at(const SpeedFilter& filter, const JobNoise& noise, Step target) {
  return std::exp(filter.predict_step(target, noise).log_time);
}

TEST(SpeedFilter, SteadyTimeIsFoundWithLessDoubtThanOneMeasurement) {
  SpeedFilter filter;
  JobNoise noise;
  feed(filter, noise, 0, 200, 0.01, [](Step) { return 0.1; });
  EXPECT_NEAR(seconds_at(filter, noise, 200), 0.1, 0.002);
  EXPECT_LT(filter.predict_step(200, noise).deviation, 0.01);
  EXPECT_NEAR(std::sqrt(noise.step), 0.01, 0.004);
  EXPECT_NEAR(std::sqrt(noise.sample), 0.005, 0.002);
}

TEST(SpeedFilter, TheLogTimeAloneIsThatOfThePrediction) {
  SpeedFilter filter;
  JobNoise noise;
  feed(filter, noise, 0, 30, 0.01, [](Step step) { return 0.1 + 0.001 * double(step); });
  const auto check_targets = [&](const char* state) {
    for (const Step target : {Step{20}, filter.step(), filter.step() + 1, filter.step() + 12}) {
      const SpeedFilter::Level level = filter.estimate(noise).level;
      EXPECT_EQ(filter.predict_log_time(target, level), filter.predict_step(target, noise).log_time)
          << state << ", step " << target;
    }
  };
  check_targets("measured");
  filter.hint(30, 0.2, 0.01);
  check_targets("with a hint for the next step");
  ASSERT_TRUE(filter.at_least(filter.step(), 0.9, noise));
  check_targets("with a late micro-batch");
}

TEST(SpeedFilter, RampIsCarriedOn) {
  SpeedFilter filter;
  JobNoise noise;
  const auto ramp = [](Step step) { return 0.1 * (1 + 0.01 * std::max(0.0, step - 30.0)); };
  feed(filter, noise, 0, 45, 0.002, ramp);
  const SpeedFilter::Estimate now = filter.estimate(noise);
  EXPECT_GT(now.level.slope, 0.006);
  EXPECT_GT(now.level.slope, 4 * std::sqrt(now.slope_variance));
  EXPECT_NEAR(seconds_at(filter, noise, 54), ramp(54), 0.006);
}

TEST(SpeedFilter, JumpIsFollowedAtTheSecondSampleAndOneOutlierIsNot) {
  SpeedFilter filter;
  JobNoise noise;
  feed(filter, noise, 0, 20, 0.005, [](Step) { return 0.1; });
  filter.advance_to(20, noise);
  filter.add_measurement(0.3, noise);
  EXPECT_TRUE(filter.is_doubtful());
  EXPECT_NEAR(seconds_at(filter, noise, 20), 0.1, 0.003);
  filter.add_measurement(0.1, noise);
  EXPECT_FALSE(filter.is_doubtful());
  EXPECT_NEAR(seconds_at(filter, noise, 20), 0.1, 0.003);
  filter.add_measurement(0.3, noise);
  filter.add_measurement(0.3, noise);
  EXPECT_NEAR(seconds_at(filter, noise, 20), 0.3, 0.01);
  EXPECT_NEAR(filter.estimate(noise).level.slope, 0, 1e-3) << "a jump is no trend";
}

TEST(SpeedFilter, LateMicroBatchRaisesThePredictionUntilItIsMeasured) {
  SpeedFilter filter;
  JobNoise noise;
  feed(filter, noise, 0, 20, 0.005, [](Step) { return 0.1; });
  filter.at_least(20, 0.05, noise);
  EXPECT_FALSE(filter.is_bounded()) << "0.05 s contradicts nothing";
  filter.at_least(20, 0.25, noise);
  EXPECT_TRUE(filter.is_bounded());
  EXPECT_NEAR(seconds_at(filter, noise, 20), 0.25, 0.01);
  EXPECT_NEAR(seconds_at(filter, noise, 19), 0.1, 0.01);
  filter.advance_to(20, noise);
  filter.add_measurement(0.1, noise);
  EXPECT_FALSE(filter.is_bounded());
}

TEST(SpeedFilter, HintShiftsThePredictionAndIsOverruledByMeasurements) {
  SpeedFilter filter;
  JobNoise noise;
  feed(filter, noise, 0, 20, 0.005, [](Step) { return 0.1; });
  const SpeedFilter::Prediction before = filter.predict_step(20, noise);
  filter.hint(20, std::log(2), 0.05);
  EXPECT_NEAR(filter.predict_step(20, noise).log_time, before.log_time + std::log(2), 1e-12);
  EXPECT_GT(filter.predict_step(20, noise).deviation, before.deviation);
  filter.advance_to(20, noise);
  for (int i = 0; i < 3; ++i) filter.add_measurement(0.1, noise);
  EXPECT_NEAR(seconds_at(filter, noise, 20), 0.1, 0.002);
}

TEST(SpeedFilter, HintedJumpIsNoTrendEither) {
  SpeedFilter filter;
  JobNoise noise;
  feed(filter, noise, 0, 20, 0.005, [](Step) { return 0.1; });
  filter.hint(20, 0, 2);  // anything may happen in step 20
  filter.advance_to(20, noise);
  for (int i = 0; i < 4; ++i) filter.add_measurement(0.3, noise);
  EXPECT_NEAR(seconds_at(filter, noise, 20), 0.3, 0.005) << "believed at once";
  filter.hint(21, 0, 0);  // the next step is looked at before this one is over
  filter.advance_to(21, noise);
  EXPECT_NEAR(filter.estimate(noise).level.slope, 0, 2e-3);
}

TEST(SpeedFilter, LongGapForgetsTheSlope) {
  SpeedFilter filter;
  JobNoise noise;
  feed(filter, noise, 0, 40, 0.002, [](Step step) { return 0.1 * (1 + 0.01 * double(step)); });
  ASSERT_GT(filter.estimate(noise).level.slope, 0.004);
  filter.advance_to(5000, noise);
  EXPECT_EQ(filter.estimate(noise).level.slope, 0);
  EXPECT_TRUE(std::isfinite(filter.predict_step(6000, noise).deviation));
}

TEST(SpeedFilter, StateSurvivesAsBytes) {
  SpeedFilter filter;
  JobNoise noise;
  feed(filter, noise, 0, 12, 0.01, [](Step) { return 0.1; });
  filter.add_measurement(0.4, noise);  // an outlier under way
  const auto saved = [](const SpeedFilter& of) {
    std::string bytes;
    {
      ByteWriter write(bytes);
      SpeedFilter::fields(of, write);
    }
    return bytes;
  };
  const std::string bytes = saved(filter);
  SpeedFilter copy;
  ByteReader read(bytes);
  SpeedFilter::fields(copy, read);
  EXPECT_TRUE(read.is_at_end());
  EXPECT_EQ(bytes, saved(copy));
  EXPECT_TRUE(copy.is_doubtful());
  EXPECT_EQ(copy.predict_step(20, noise).log_time, filter.predict_step(20, noise).log_time);
}

}  // namespace
}  // namespace orrery

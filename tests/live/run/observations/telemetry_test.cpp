#include "live/run/observations/telemetry.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

constexpr Nanos kMs = 1'000'000;

ProgressSample progress(Nanos elapsed, Nanos busy, double bytes) {
  ProgressSample out;
  out.set_step(4);
  out.set_micro_batches_done(2.5);
  out.set_micro_batch_time(40 * kMs);
  out.set_elapsed(elapsed);
  out.set_busy(busy);
  out.set_bytes_moved(bytes);
  return out;
}

TEST(Telemetry, WhatTheDriverOfAGpuMeasuresCountsBeforeWhatThePaceSays) {
  Telemetry telemetry(1, 1e9);
  ProgressSample sample = progress(100 * kMs, 50 * kMs, 1e7);
  sample.mutable_device()->set_utilization(0.9);
  sample.mutable_device()->set_power(650);
  telemetry.record_progress(0, sample, 100 * kMs);
  telemetry.refresh_samples(100 * kMs);
  ASSERT_EQ(telemetry.devices().size(), 1u);
  const DeviceSample& device = telemetry.devices()[0];
  EXPECT_EQ(device.utilization.value, 0.9);
  EXPECT_EQ(device.power.value, 650);
  EXPECT_EQ(device.power.origin, Origin::measured);
  EXPECT_EQ(device.memory_bandwidth.origin, Origin::modelled);
  EXPECT_FALSE(device.memory_used.is_known());
}

StepReport report(Nanos compute, Nanos exchange) {
  StepReport out;
  out.set_compute(compute);
  OpDone& op = *out.add_ops();
  op.set_phase(GRADIENT);
  op.set_duration(exchange);
  op.set_bytes(1024);
  op.set_algorithm(static_cast<std::uint32_t>(CollectiveAlgorithm::tree));
  return out;
}

TEST(Telemetry, GivesFreshSamplesOnceAndWithTheirAge) {
  Telemetry telemetry(2, 1000);
  telemetry.record_progress(1, progress(100 * kMs, 50 * kMs, 20), 90 * kMs);
  telemetry.refresh_samples(100 * kMs);
  ASSERT_EQ(telemetry.ranks().size(), 1u);
  const RankSample& sample = telemetry.ranks()[0];
  EXPECT_EQ(sample.rank.value, 1u);
  EXPECT_EQ(sample.step, 4u);
  EXPECT_EQ(sample.micro_batches_done.value, 2.5);
  EXPECT_EQ(sample.micro_batches_done.age, 10 * kMs);
  EXPECT_DOUBLE_EQ(sample.micro_batch_time.value, 0.040);
  EXPECT_FALSE(sample.wait_time.is_known());
  EXPECT_FALSE(sample.gradient_variance.is_known());
  telemetry.refresh_samples(150 * kMs);
  EXPECT_TRUE(telemetry.ranks().empty());
  EXPECT_TRUE(telemetry.devices().empty());
}

TEST(Telemetry, DeviceSharesAreThoseSinceTheSampleBefore) {
  Telemetry telemetry(1, 1000);
  telemetry.record_progress(0, progress(100 * kMs, 100 * kMs, 100), 0);
  telemetry.refresh_samples(0);
  EXPECT_DOUBLE_EQ(telemetry.devices()[0].utilization.value, 1);
  telemetry.record_progress(0, progress(200 * kMs, 125 * kMs, 150), 0);
  telemetry.refresh_samples(0);
  ASSERT_EQ(telemetry.devices().size(), 1u);
  EXPECT_DOUBLE_EQ(telemetry.devices()[0].utilization.value, 0.25);
  EXPECT_EQ(telemetry.devices()[0].utilization.origin, Origin::measured);
  EXPECT_DOUBLE_EQ(telemetry.devices()[0].memory_bandwidth.value, 0.5);
  EXPECT_EQ(telemetry.devices()[0].memory_bandwidth.origin, Origin::modelled);
  EXPECT_FALSE(telemetry.devices()[0].power.is_known());
}

TEST(Telemetry, LinkLatencyIsHalfTheRoundTripAndOnlyWhenMeasuredAnew) {
  Telemetry telemetry(2, 1000);
  ProgressSample sample = progress(10 * kMs, 0, 0);
  telemetry.record_progress(1, sample, 0);
  telemetry.refresh_samples(0);
  EXPECT_TRUE(telemetry.links().empty());  // none yet
  sample.set_round_trip(2 * kMs);
  telemetry.record_progress(1, sample, 0);
  telemetry.refresh_samples(0);
  ASSERT_EQ(telemetry.links().size(), 1u);
  EXPECT_DOUBLE_EQ(telemetry.links()[0].latency.value, 0.001);
  EXPECT_EQ(telemetry.links()[0].from.value, 1u);
  EXPECT_EQ(telemetry.links()[0].to.value, 0u);
  telemetry.record_progress(1, sample, 0);
  telemetry.refresh_samples(0);
  EXPECT_TRUE(telemetry.links().empty());
}

TEST(Telemetry, ACommittedStepTellsWhoWaitedAndWhatTheExchangeTook) {
  Telemetry telemetry(2, 1000);
  const std::vector<StepReport> reports{report(100 * kMs, 205 * kMs), report(300 * kMs, 5 * kMs)};
  EXPECT_EQ(exchange_time(reports), 5 * kMs);
  telemetry.record_step(7, 8, 4e6, reports, 310 * kMs);
  for (const std::uint32_t rank : {0u, 1u}) telemetry.record_progress(rank, progress(1, 0, 0), 0);
  telemetry.refresh_samples(320 * kMs);
  EXPECT_DOUBLE_EQ(telemetry.ranks()[0].wait_time.value, 0.2);
  EXPECT_EQ(telemetry.ranks()[0].wait_time.age, 10 * kMs);
  EXPECT_DOUBLE_EQ(telemetry.ranks()[1].wait_time.value, 0);
  ASSERT_EQ(telemetry.collectives().size(), 1u);
  EXPECT_DOUBLE_EQ(telemetry.collectives()[0].exposed, 0.005);
  EXPECT_EQ(telemetry.collectives()[0].step, 7u);
  EXPECT_EQ(telemetry.collectives()[0].bytes, 4e6) << "in fp32, whatever travelled";
  EXPECT_EQ(telemetry.collectives()[0].algorithm, CollectiveAlgorithm::tree);
}

TEST(Telemetry, AnExchangeTellsTheLinksBandwidthAndHowMuchGradientsDiffer) {
  Telemetry telemetry(2, 1000);
  std::vector<StepReport> reports{report(100 * kMs, 50 * kMs), report(100 * kMs, 50 * kMs)};
  reports[1].set_exchange_bytes(4e6);
  reports[1].set_sending(20 * kMs);
  reports[1].set_samples(8);
  reports[1].set_own_square(3.5 * 64);  // square of the mean: 3.5
  reports[1].set_total_square(64);
  telemetry.record_step(7, 8, 4e6, reports, 310 * kMs);
  ProgressSample sample = progress(10 * kMs, 0, 0);
  sample.set_memory(123);
  for (const std::uint32_t rank : {0u, 1u}) telemetry.record_progress(rank, sample, 320 * kMs);
  telemetry.refresh_samples(320 * kMs);
  ASSERT_EQ(telemetry.links().size(), 1u) << "rank 0 has sent nothing";
  EXPECT_EQ(telemetry.links()[0].from.value, 1u);
  EXPECT_DOUBLE_EQ(telemetry.links()[0].bandwidth.value, 4e6 / 0.020);
  EXPECT_EQ(telemetry.links()[0].bandwidth.age, 10 * kMs);
  EXPECT_FALSE(telemetry.links()[0].latency.is_known());
  EXPECT_FALSE(telemetry.ranks()[0].gradient_variance.is_known());
  EXPECT_EQ(telemetry.ranks()[1].gradient_variance.value, 2.5);
  EXPECT_EQ(telemetry.devices()[1].memory_used.value, 123);
  telemetry.record_progress(1, sample, 330 * kMs);
  telemetry.refresh_samples(330 * kMs);
  EXPECT_TRUE(telemetry.links().empty()) << "no exchange since";
  EXPECT_FALSE(telemetry.ranks()[0].gradient_variance.is_known());
}

TEST(Telemetry, ADeclaredNoiseScaleIsShownInsteadOfTheMeasuredOne) {
  for (const bool declared : {true, false}) {
    Telemetry telemetry(2, 1000, declared ? DeclaredNoise{30, 2} : DeclaredNoise{});
    const auto noise_scale = [&](Nanos now) {
      telemetry.record_progress(0, progress(now, 0, 0), now);
      telemetry.refresh_samples(now);
      return telemetry.ranks()[0].noise_scale;
    };
    EXPECT_FALSE(noise_scale(10 * kMs).is_known()) << "before the first step";
    std::vector<StepReport> reports{report(100 * kMs, 50 * kMs), report(100 * kMs, 50 * kMs)};
    for (StepReport& each : reports) {
      each.set_samples(4);
      each.set_own_square(3.0 * 16);    // square of the mean: 3
      each.set_total_square(2.0 * 64);  // square of the mean: 2
    }
    telemetry.record_step(7, 8, 4e6, reports, 310 * kMs);
    const Sample<double> seen = noise_scale(320 * kMs);
    // |G|^2 = (8 x 2 - 4 x 3) / 4 = 1, tr(S) = (3 - 2) / (1 / 4 - 1 / 8) = 8.
    EXPECT_DOUBLE_EQ(seen.value, declared ? 30 + 7 * 2 : 8);
    EXPECT_EQ(seen.origin, declared ? Origin::modelled : Origin::measured);
    EXPECT_EQ(seen.age, 10 * kMs);
  }
}

}  // namespace
}  // namespace orrery::live

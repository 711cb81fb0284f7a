// The ledger books each GPU-nanosecond once, also for overlapping uses.
#include "sim/training/gpu_time.hpp"

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery::sim {
namespace {

constexpr std::array<double, kStepUses> kHalf{0.5, 0.25, 0.125, 0.125};

/// 8 GPUs of 75 to 700 W on a host of 2 kW.
Cluster estimated_cluster() {
  GpuModel gpu{};
  gpu.idle_power = {75};
  gpu.max_power = {700};
  Cluster::Shape shape{};
  shape.nodes = shape.nodes_per_unit = shape.spines = 1;
  shape.gpus_per_node = shape.nics_per_node = 8;
  shape.host_power = {2000};
  return Cluster(gpu, shape, {});
}

TEST(GpuTimeLedger, StepsAreDividedAsTheyWereAndIdleGpusAreIdle) {
  GpuTimeLedger time(8);
  time.begin(100);
  time.advance_to(100);
  time.commit_steps(1000, kHalf, 6);
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::computing), 3000e-9);
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::exposed_communication), 1500e-9);
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::bubble), 750e-9);
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::waiting), 750e-9);
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::idle), 2000e-9);
  EXPECT_EQ(time.booked_until(), 1100);
}

TEST(GpuTimeLedger, WhatOverlapsCountsOnceAndWhatComesBetweenEndsIt) {
  GpuTimeLedger time(1);
  time.begin(0);
  time.stall_until(100, GpuUse::checkpoint);
  time.stall_for_loss(40, 60, 50);  // The recovery ends before it begins.
  time.stall_until(90, GpuUse::recovery);
  time.advance_to(120);
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::checkpoint), 40e-9);
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::detection), 20e-9);
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::recovery), 30e-9);
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::idle), 30e-9) << "nothing said what it waits for";
}

TEST(GpuTimeLedger, WhatIsDoneAgainWasLostSinceTheCheckpointThatIsGoneBackTo) {
  GpuTimeLedger time(2);
  time.begin(0);
  time.commit_steps(100, kHalf, 2);
  time.mark_checkpoint(1, 0);
  time.stall_until(110, GpuUse::checkpoint);
  time.advance_to(110);
  time.commit_steps(100, kHalf, 2);
  time.mark_checkpoint(2, 1);  // never durable
  time.commit_steps(100, kHalf, 2);
  time.roll_back(1);
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::lost_work), 400e-9);
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::checkpoint), 20e-9) << "that was a checkpoint all the same";
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::computing), 100e-9);
  time.roll_back(0);  // without its mark, kept work stays kept
  EXPECT_DOUBLE_EQ(time.seconds(GpuUse::lost_work), 600e-9);
}

TEST(GpuTimeLedger, EnergyFollowsTheUseOfTheTime) {
  const Cluster cluster = estimated_cluster();
  GpuTimeLedger time(8, EnergyMeter(cluster));
  constexpr Nanos kSecond = kNanosPerSecond;
  time.begin(0);
  time.commit_steps(kSecond, kHalf, 6, {.time = {2, 1, 1, 0, 0}});
  const double step = (2 * 700 + 450 + 293.75) / 4 * 6 + 2 * 75;
  EXPECT_NEAR(time.meter().joules(), step + 2000, 1e-6);
  time.lose_step(kSecond, 2 * kSecond, 8);
  EXPECT_NEAR(time.meter().joules(), step + (2 * 700 + 450 + 293.75) / 4 * 8 + 4000, 1e-6)
      << "a lost step draws as the newest one";
  const double before = time.meter().joules();
  time.stall_until(3 * kSecond, GpuUse::recovery);
  time.advance_to(4 * kSecond);  // a second of recovery, a second without work
  EXPECT_NEAR(time.meter().joules() - before, 8 * 200 + 8 * 75 + 4000, 1e-6);
  time.roll_back(0);
  EXPECT_NEAR(time.meter().joules() - before, 8 * 200 + 8 * 75 + 4000, 1e-6)
      << "what was drawn was drawn";
}

TEST(GpuTimeLedger, WhateverIsToldThePartsAreTheClockTimesTheGpus) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto gpus = static_cast<std::uint32_t>(1 + rng.below(131072));
    GpuTimeLedger time(gpus);
    Nanos now = static_cast<Nanos>(rng.below(1'000'000'000));
    const Nanos began = now;
    time.begin(began);
    Step step = 0;
    for (int i = 0; i < 300; ++i) {
      const auto span = static_cast<Nanos>(rng.below(2'000'000'000'000));
      const auto working = static_cast<std::uint32_t>(1 + rng.below(gpus));
      switch (rng.below(6)) {
        case 0: time.stall_until(now + span, static_cast<GpuUse>(kStepUses + rng.below(4))); break;
        case 1: time.interrupt_at(now += span); break;
        case 2:
          time.advance_to(now);
          time.commit_steps(span, {rng.uniform(), rng.uniform(), 0, rng.uniform()}, working);
          now += span;
          ++step;
          break;
        case 3: time.lose_step(now, now + span, working), now += span; break;
        case 4: time.mark_checkpoint(step, step > 3 ? step - 3 : 0); break;
        case 5: time.roll_back(step = step > 2 ? step - 2 : 0); break;
      }
    }
    time.advance_to(now);
    EXPECT_TRUE(time.total() == GpuTimeLedger::GpuNanos{now - began} * gpus);
  }
}

}  // namespace
}  // namespace orrery::sim

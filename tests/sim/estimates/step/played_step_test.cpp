#include "sim/estimates/step/played_step.hpp"

#include <memory>

#include <gtest/gtest.h>

#include "tests/sim/by_hand.hpp"

namespace orrery::estimates {
namespace {

constexpr Nanos kMs = 1'000'000;

TEST(PlayedStep, ProgressRunsWithEachReplicasOwnSpeed) {
  const PlayedStep step(7, 1000 * kMs, testing::step_by_hand(), {});
  EXPECT_EQ(step.step(), 7u);
  EXPECT_EQ(step.end(), 1850 * kMs);
  EXPECT_DOUBLE_EQ(step.done(0, 0, 1000 * kMs), 0);
  EXPECT_NEAR(step.done(0, 0, 1150 * kMs), 1.5, 1e-9);
  EXPECT_NEAR(step.done(1, 0, 1150 * kMs), 0.75, 1e-9);
  EXPECT_DOUBLE_EQ(step.done(0, 0, 1800 * kMs), 4);
}

TEST(PlayedStep, TheFastOneWaitsForTheSlowOne) {
  const PlayedStep step(0, 0, testing::step_by_hand(), {});
  EXPECT_NEAR(step.wait_time(0, 0), 0.4, 1e-12);
  EXPECT_NEAR(step.wait_time(1, 0), 0, 1e-12);
  EXPECT_NEAR(step.micro_batch_time(1, 0), 0.2, 1e-12);
  EXPECT_NEAR(step.utilization(0, 0), 0.45 / 0.85, 1e-9);
  EXPECT_NEAR(step.utilization(1, 0), 1, 1e-9);
  EXPECT_NEAR(step.memory_rate(0, 0), 8e9 / 0.85, 1);
}

TEST(PlayedStep, AllRanksWaitForTheDataOfTheNextStep) {
  auto by_hand = std::make_shared<SimulatedStep>(*testing::step_by_hand());
  by_hand->run.workers[0].input = 0.1;
  by_hand->run.duration += 0.15;
  by_hand->run.input_tail = 0.15;
  const PlayedStep step(0, 0, by_hand, {});
  EXPECT_NEAR(step.input_wait(0, 0), 0.25, 1e-12);
  EXPECT_NEAR(step.input_wait(1, 0), 0.15, 1e-12);
  EXPECT_NEAR(step.utilization(1, 0), 0.85, 1e-9) << "not in the wait";
}

TEST(PlayedStep, NoiseStretchesComputeButNotWhatFollows) {
  const PlayedStep step(0, 0, testing::step_by_hand(), {3.0, 1.25});
  EXPECT_NEAR(to_seconds(step.duration()), 1.2 + 0.05, 1e-9);
  EXPECT_NEAR(step.micro_batch_time(0, 0), 0.3, 1e-12);
  EXPECT_NEAR(step.wait_time(1, 0), 0.2, 1e-9);
  EXPECT_NEAR(step.done(0, 0, 300 * kMs), 1, 1e-9);
}

}  // namespace
}  // namespace orrery::estimates

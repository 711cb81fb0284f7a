#include "sim/training/step_sequence.hpp"

#include <gtest/gtest.h>

#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

using testing::LoneJob;

/// A job whose policies rest after the first step.
LoneJob& resting(LoneJob& job) {
  job.start();
  job.run_steps(1);
  job.watch.resting = true;
  return job;
}

TEST(StepSequence, StepsAtOnceAreTheSameAsOneByOne) {
  LoneJob one("", {"run.steps=10"}), other("", {"run.steps=10"});
  resting(one), resting(other);
  enter_new_step(one.here, one.state());
  begin_steps(one.here, one.state(), one.watch);
  ASSERT_TRUE(one.state().stretch);
  EXPECT_EQ(one.state().stretch->count, 9u);
  settle_steps(one.here, one.state(), one.state().step_end());
  other.watch.resting = false;
  other.run_steps(9);
  EXPECT_EQ(one.state().now, other.state().now);
  EXPECT_EQ(one.state().metrics.steps(), 10u);
  for (int use = 0; use < static_cast<int>(kGpuUses); ++use) {
    EXPECT_NEAR(one.state().metrics.time().seconds(static_cast<GpuUse>(use)),
                other.state().metrics.time().seconds(static_cast<GpuUse>(use)), 1e-7);
  }
}

TEST(StepSequence, AStretchThatEndsWithinAStepGoesOnAsASingleStep) {
  LoneJob job("", {"run.steps=10"});
  resting(job);
  enter_new_step(job.here, job.state());
  begin_steps(job.here, job.state(), job.watch);
  ASSERT_TRUE(job.state().stretch);
  EXPECT_THROW(job.bytes(), Error) << "no snapshot within a stretch";
  const Stretch stretch = *job.state().stretch;
  const Nanos within = stretch.began + 2 * stretch.length + stretch.length / 2;
  settle_steps(job.here, job.state(), within);
  EXPECT_EQ(job.state().step, 3u);
  ASSERT_TRUE(job.state().open);
  EXPECT_EQ(job.state().now, within);
  EXPECT_EQ(job.state().open->end(), stretch.began + 3 * stretch.length);

  abandon_step(job.state());
  EXPECT_TRUE(job.state().is_idle());
  EXPECT_EQ(job.state().step, 3u) << "the step is repeated";
  EXPECT_NEAR(job.state().metrics.time().seconds(GpuUse::lost_work),
              4 * to_seconds(stretch.length / 2), 1e-6);
}

TEST(StepSequence, AStepIsRestartedAsOfItsBegin) {
  LoneJob job;
  job.start();
  job.open_step();
  const Nanos end = job.state().step_end();
  job.state().open.reset();
  job.state().now = end / 2;
  restart_current_step(job.here, job.state(), 0);
  EXPECT_EQ(job.state().step_end(), end);
  EXPECT_EQ(job.state().now, end / 2);
}

}  // namespace
}  // namespace orrery::sim

#include "sim/training/step_commits.hpp"

#include <gtest/gtest.h>

#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

using testing::LoneJob;

TEST(StepCommits, ARollbackMovesStepsToLostWork) {
  LoneJob job;
  job.start();
  job.run_steps(5);
  roll_back_to(job.state(), 2);
  EXPECT_EQ(job.state().step, 2u);
  EXPECT_EQ(job.state().metrics.steps(), 2u);
  EXPECT_GT(job.state().metrics.time().seconds(GpuUse::lost_work), 0);
}

TEST(StepCommits, TheLastStepEndsTheJob) {
  LoneJob job("", {"run.steps=3"});
  job.start();
  job.run_steps(2);
  EXPECT_TRUE(job.events_of<JobDone>().empty());
  job.run_steps(1);
  ASSERT_EQ(job.events_of<JobDone>().size(), 1u);
  EXPECT_EQ(job.events_of<JobDone>().front().how, Ending::completed);
  EXPECT_TRUE(job.state().metrics.is_over());
  std::uint64_t told = 0;
  for (const StepsDone& done : job.events_of<StepsDone>()) told += done.count;
  EXPECT_EQ(told, 3u);
}

TEST(StepCommits, AReportedPartRenewsTheSpares) {
  LoneJob job("  - {at_time: 1 ms, gpu: 4, down: true}\n", {"survival.warm=2"});
  job.start();
  EXPECT_EQ(job.state().warm.size(), 2u);
  job.open_step();
  job.state().now = kNanosPerSecond / 1000;
  emit_due_events(job.here, job.state());
  EXPECT_EQ(job.events_of<PartChanged>().size(), 1u);
  EXPECT_EQ(job.state().warm.size(), 2u);
  EXPECT_FALSE(job.state().warm.contains({4}));
}

}  // namespace
}  // namespace orrery::sim

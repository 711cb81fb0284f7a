// Assignments and placements of a job, function by function; whole runs: assignments_test.
#include "sim/training/placement.hpp"

#include <gtest/gtest.h>

#include "sim/training/assignments.hpp"
#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

using testing::LoneJob;

Assign to_gpus(const LoneJob& job, std::uint32_t first, StateFrom state) {
  return {{0}, GpuRuns::range({first}, 4), job.info().layout, state};
}

TEST(Placement, AnAssignmentIsReadyAfterWhatItsProcessesNeed) {
  LoneJob job("", {"survival.restart=40 s", "survival.replacement=30 s",
                   "survival.detection=2 s", "survival.warm_join=5 s"});
  job.start();
  TrainingState& state = job.state();
  state.now = 100 * kNanosPerSecond;
  const auto ready_s = [&](const Assign& assign) {
    return to_seconds(ready_time(job.here.survival(), state, job.info(), assign) - state.now);
  };
  EXPECT_EQ(ready_s(to_gpus(job, 0, StateFrom::peer)), 0);
  EXPECT_EQ(ready_s(to_gpus(job, 0, StateFrom::checkpoint)), 40);
  const Assign others = to_gpus(job, 4, StateFrom::peer);
  EXPECT_EQ(ready_s(others), 30);
  state.losses.record_death({1}, "rank 1 killed", state.now, state.now);
  EXPECT_EQ(ready_s(others), 28) << "the loss was detected 2 s after it";
  for (std::uint32_t gpu = 4; gpu < 8; ++gpu) state.warm[{gpu}] = 0;
  EXPECT_EQ(ready_s(others), 5);
}

TEST(Placement, APendingAssignmentIsActiveBetweenTwoSteps) {
  LoneJob job("", {"survival.replacement=30 s"});
  job.start();
  job.run_steps(2);
  job.decide_in_world(to_gpus(job, 4, StateFrom::peer));
  assign_gpus(job.here, job.state(), to_gpus(job, 4, StateFrom::peer));
  ASSERT_TRUE(job.state().pending);
  LoneJob read(job, [&job](const JobInWorld& here) { return read_state(here, job.bytes()); });
  for (LoneJob* each : {&job, &read}) {
    TrainingState& state = each->state();
    change_between_steps(each->here, state);
    EXPECT_TRUE(state.pending) << "not ready yet";
    EXPECT_EQ(next_placement_change(each->here, state), state.pending->ready);
    state.now = state.pending->ready;
    change_between_steps(each->here, state);
    EXPECT_FALSE(state.pending);
    EXPECT_EQ(state.fit().where().gpus, GpuRuns::range({4}, 4));
    EXPECT_EQ(state.fits.numbered.size(), 8u);
    EXPECT_EQ(state.step, 2u) << "the state came from the ranks";
    each->run_steps(1);
  }
  EXPECT_EQ(read.state().now, job.state().now);
}

TEST(Placement, AReleaseRollsBackToTheNewestCheckpoint) {
  LoneJob job;
  job.start();
  job.run_steps(3);
  job.open_step();
  release_gpus(job.here, job.state());
  ASSERT_EQ(job.events_of<JobStopped>().size(), 1u);
  EXPECT_EQ(job.state().step, 0u) << "nothing was saved";
  EXPECT_TRUE(job.state().is_idle());
  EXPECT_FALSE(job.state().conditions);
  EXPECT_FALSE(can_begin_step(job.here, job.state()));
}

TEST(Placement, SparesAreTheFirstFreeHealthyGpus) {
  LoneJob job("", {"survival.warm=3"});
  job.start();
  EXPECT_EQ(job.state().warm.size(), 3u);
  EXPECT_TRUE(job.state().warm.contains({4}));
  EXPECT_FALSE(job.state().warm.contains({3})) << "the job works there";
}

}  // namespace
}  // namespace orrery::sim

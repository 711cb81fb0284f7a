// The state of a training job as a value: a copy is a fork, bytes are a snapshot, equal bytes are
// equal states.
#include "sim/training/training_state.hpp"

#include <gtest/gtest.h>

#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

using testing::LoneJob;

/// Returns a copy of the state of `of`, with fits of its own.
auto copied(LoneJob& of) {
  return [&of](const JobInWorld& here) { return read_state(here, of.bytes()); };
}

TEST(TrainingState, EqualRunsHaveEqualBytesAndEachStepChangesThem) {
  LoneJob one, other;
  EXPECT_EQ(one.bytes(), other.bytes());
  one.start();
  EXPECT_NE(one.bytes(), other.bytes());
  other.start();
  one.run_steps(3);
  other.run_steps(3);
  EXPECT_EQ(one.state().step, 3u);
  EXPECT_EQ(one.bytes(), other.bytes());
  one.open_step();
  EXPECT_NE(one.bytes(), other.bytes());
}

TEST(TrainingState, ACopyIsAForkThatGoesOnByItself) {
  LoneJob job;
  job.start();
  job.run_steps(2);
  const TrainingState copy = job.state();
  const std::string before = job.bytes();
  job.run_steps(4);
  EXPECT_EQ(write_state(copy), before) << "the copy does not see what the job does";
  LoneJob fork(job, [&copy](const JobInWorld&) { return copy; });
  EXPECT_EQ(fork.state().step, 2u);
  EXPECT_EQ(fork.state().metrics.steps(), 2u);
}

TEST(TrainingState, WhatIsReadGoesOnAsWhatWasWritten) {
  LoneJob job("", {"noise.compute_cv=0.05", "run.steps=20"});
  job.start();
  job.run_steps(4);
  LoneJob read(job, copied(job));
  EXPECT_EQ(read.bytes(), job.bytes());
  const std::size_t before = job.events().size();
  job.run_steps(5);
  read.run_steps(5);
  EXPECT_EQ(read.bytes(), job.bytes());
  EXPECT_EQ(read.events().size(), job.events().size() - before);
}

TEST(TrainingState, MarksOfFaultsAndLedgersGoOnAsWell) {
  LoneJob job("  - {at_step: 3, rank: 1, slow: 2, until_step: 6}\n",
              {"noise.compute_cv=0.05", "run.steps=20"});
  job.start();
  job.run_steps(4);
  LoneJob read(job, copied(job));
  job.run_steps(5);
  read.run_steps(5);
  // Steps that are simulated again differ in the last bits of their seconds, not in nanoseconds.
  EXPECT_EQ(read.state().now, job.state().now);
  Report whole, continued;
  job.state().faults.plan.append_fault_counts(9, 0, kNever, whole);
  read.state().faults.plan.append_fault_counts(9, 0, kNever, continued);
  EXPECT_EQ(continued.SerializeAsString(), whole.SerializeAsString());
  EXPECT_NEAR(read.state().metrics.time().seconds(GpuUse::waiting),
              job.state().metrics.time().seconds(GpuUse::waiting), 1e-6);
  EXPECT_GT(job.state().metrics.time().seconds(GpuUse::waiting), 0);
}

TEST(TrainingState, AnOpenStepIsSimulatedAgain) {
  LoneJob job("  - {at_time: 1 ms, rank: 2, slow: 3}\n");
  job.start();
  job.open_step();
  LoneJob read(job, copied(job));
  ASSERT_TRUE(read.state().open);
  EXPECT_EQ(read.state().open->end(), job.state().open->end());
  job.close_step();
  read.close_step();
  EXPECT_EQ(read.bytes(), job.bytes());
}

TEST(TrainingState, CutBytesAndFurtherBytesAreRefused) {
  LoneJob job;
  job.start();
  const std::string bytes = job.bytes();
  EXPECT_THROW(read_state(job.here, std::string_view(bytes).substr(0, bytes.size() / 2)), Error);
  EXPECT_THROW(read_state(job.here, bytes + "x"), Error);
}

}  // namespace
}  // namespace orrery::sim

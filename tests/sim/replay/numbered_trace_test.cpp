#include "sim/replay/numbered_trace.hpp"

#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

TraceJob job(std::int64_t submit_s, std::uint32_t gpus) {
  TraceJob job;
  job.submit_s = submit_s;
  job.gpus = gpus;
  job.duration_s = 60;
  return job;
}

TEST(NumberedTrace, ALogInOrderIsNumberedAsItStands) {
  const NumberedTrace trace({job(0, 8), job(5, 4), job(5, 1)}, 8);
  ASSERT_EQ(trace.size(), 3u);
  EXPECT_EQ(trace.number_of_row(2), 2u);
  EXPECT_EQ(trace[1].gpus, 4u);
  EXPECT_EQ(trace.submission(1), 5 * kNanosPerSecond);
  EXPECT_EQ(trace.duration(1), 60 * kNanosPerSecond);
}

TEST(NumberedTrace, WhatNeverFitsHasNoNumberAndTiesKeepTheirOrder) {
  const NumberedTrace trace({job(9, 1), job(3, 16), job(3, 2), job(3, 4)}, 8);
  ASSERT_EQ(trace.rows(), 4u);
  ASSERT_EQ(trace.size(), 3u);
  EXPECT_EQ(trace.number_of_row(1), NumberedTrace::kRejected);
  EXPECT_EQ(trace.misfit(trace.row(1)), "needs 16 GPUs, there are 8");
  EXPECT_EQ(trace[0].gpus, 2u);
  EXPECT_EQ(trace[1].gpus, 4u);
  EXPECT_EQ(trace.number_of_row(0), 2u);
}

TEST(NumberedTrace, AJobMustFitIntoOneOfItsKinds) {
  std::vector<TraceJob> jobs = {job(0, 8), job(1, 9), job(2, 8), job(3, 4), job(4, 1)};
  jobs[2].kinds = "V100|T4";
  jobs[3].kinds = "V100|A100 V100:1 A100:2";
  jobs[4].kinds = "T4";
  const NumberedTrace trace(std::move(jobs), 12, {{"A100", 8}, {"V100", 4}});
  EXPECT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace.misfit(trace.row(1)), "needs 9 GPUs of one kind, there are 8");
  EXPECT_EQ(trace.misfit(trace.row(2)), "needs 8 GPUs of V100|T4, there are 4");
  EXPECT_EQ(trace.misfit(trace.row(3)), "");
  EXPECT_EQ(trace.misfit(trace.row(4)), "may use GPUs of T4 only, the nodes have A100, V100");
  EXPECT_TRUE(trace.is_variable(1));
  EXPECT_FALSE(trace.is_variable(0));
}

TEST(NumberedTrace, WithoutKindsOfNodesJobsFitAnywhere) {
  std::vector<TraceJob> jobs = {job(0, 8)};
  jobs[0].kinds = "V100|A100 V100:1 A100:2";
  const NumberedTrace trace(std::move(jobs), 8);
  EXPECT_EQ(trace.kinds_of(trace.row(0)), nullptr);
  EXPECT_FALSE(trace.is_variable(0));
}

TEST(NumberedTrace, NothingMayFit) {
  const NumberedTrace trace({job(0, 9)}, 8);
  EXPECT_EQ(trace.size(), 0u);
  EXPECT_EQ(trace.rows(), 1u);
}

}  // namespace
}  // namespace orrery::sim

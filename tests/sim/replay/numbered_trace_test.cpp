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

TEST(NumberedTrace, NothingMayFit) {
  const NumberedTrace trace({job(0, 9)}, 8);
  EXPECT_EQ(trace.size(), 0u);
  EXPECT_EQ(trace.rows(), 1u);
}

}  // namespace
}  // namespace orrery::sim

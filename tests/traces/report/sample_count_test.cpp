#include "traces/report/sample_count.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(SampleCount, ARollbackRemovesTheSamplesOfTheNewestSteps) {
  SampleCount samples;
  samples.add_steps(10, 64);
  samples.add_steps(0, 7);
  samples.add_steps(5, 32);
  samples.add_steps(1, 32);
  EXPECT_EQ(samples.total(), 832u);
  EXPECT_EQ(samples.runs().size(), 2u);
  samples.roll_back(8);
  EXPECT_EQ(samples.total(), 512u);
  samples.roll_back(100);
  EXPECT_EQ(samples.total(), 0u);
}

}  // namespace
}  // namespace orrery

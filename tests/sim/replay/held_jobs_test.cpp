#include "sim/replay/held_jobs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TraceJob job(const char* id, std::uint32_t gpus, const char* after) {
  TraceJob job;
  job.id = id;
  job.gpus = gpus;
  job.after = after;
  return job;
}

TEST(HeldJobs, TheLastEndReleasesThemInTheOrderOfTheLog) {
  const NumberedTrace trace(
      {job("a", 1, ""), job("b", 1, ""), job("c", 1, "a b"), job("d", 1, "b")}, 8);
  HeldJobs held(trace);
  EXPECT_TRUE(held.record_arrival(0));
  EXPECT_TRUE(held.record_arrival(1));
  EXPECT_FALSE(held.record_arrival(2));
  EXPECT_FALSE(held.record_arrival(3));
  held.record_end(0);
  EXPECT_THAT(held.drain_released(), IsEmpty());
  held.record_end(1);
  EXPECT_THAT(held.drain_released(), ElementsAre(2, 3));
  EXPECT_THAT(held.drain_released(), IsEmpty());
}

TEST(HeldJobs, WhoArrivesAfterTheEndIsNotHeld) {
  const NumberedTrace trace({job("a", 1, ""), job("b", 1, "a")}, 8);
  HeldJobs held(trace);
  EXPECT_TRUE(held.record_arrival(0));
  held.record_end(0);
  EXPECT_TRUE(held.record_arrival(1));
  EXPECT_THAT(held.drain_released(), IsEmpty());
}

TEST(HeldJobs, AJobThatNeverFitsKeepsNobodyWaiting) {
  const NumberedTrace trace({job("a", 16, ""), job("b", 1, "a")}, 8);
  HeldJobs held(trace);
  EXPECT_TRUE(held.record_arrival(0)) << "b, the only one with a number";
}

}  // namespace
}  // namespace orrery::sim

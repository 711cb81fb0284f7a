#include "live/jobs/job_process.hpp"

#include <poll.h>

#include <csignal>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

constexpr Nanos kSecond = kNanosPerSecond;
constexpr std::chrono::milliseconds kBeat{5};

JobProcess::Order order(std::uint32_t first, std::uint32_t gpus, Nanos since, Nanos left) {
  return {GpuRuns::range({first}, gpus), since, left, kBeat};
}

void await_end(JobProcess& process) {
  while (!process.ended()) {
    pollfd waiting{process.channel(), POLLIN, 0};
    poll(&waiting, 1, 1000);
    process.hear();
  }
}

void await_life(JobProcess& process) {
  while (!process.ended() && process.alive_at() < 0) {
    pollfd waiting{process.channel(), POLLIN, 0};
    poll(&waiting, 1, 1000);
    process.hear();
  }
}

TEST(JobProcess, EndsInTheSecondInWhichItHasToEnd) {
  const TraceClock clock(1000, 0);
  const GpuSlots slots;
  JobProcess process(slots, clock, order(0, 4, 0, 73 * kSecond));
  EXPECT_LT(process.alive_at(), 0);
  await_life(process);
  EXPECT_GE(process.alive_at(), 0);
  await_end(process);
  EXPECT_EQ(process.ended(), 73 * kSecond);
  EXPECT_FALSE(process.failed());
  EXPECT_GE(clock.now(), 73 * kSecond);
}

TEST(JobProcess, AJobWithoutWorkEndsAtOnce) {
  const TraceClock clock(1000, 0);
  const GpuSlots slots;
  JobProcess process(slots, clock, order(0, 1, 0, 0));
  await_end(process);
  EXPECT_EQ(process.ended(), 0);
}

TEST(JobProcess, NobodyElseHasItsSlotsUntilItIsGone) {
  const TraceClock clock(1000, 0);
  const GpuSlots slots;
  JobProcess first(slots, clock, order(0, 4, 0, 1'000'000 * kSecond));
  await_life(first);
  JobProcess taken(slots, clock, order(3, 2, 0, kSecond));
  await_end(taken);
  EXPECT_TRUE(taken.failed());
  JobProcess beside(slots, clock, order(4, 2, 0, kSecond));
  await_end(beside);
  EXPECT_FALSE(beside.failed());
  first.kill();
  JobProcess after(slots, clock, order(3, 2, 0, kSecond));
  await_end(after);
  EXPECT_FALSE(after.failed());
}

TEST(JobProcess, OneThatSomebodyElseKillsHasFailed) {
  const TraceClock clock(1000, 0);
  const GpuSlots slots;
  JobProcess process(slots, clock, order(0, 1, 0, 1'000'000 * kSecond));
  await_life(process);
  kill(process.pid(), SIGKILL);
  await_end(process);
  EXPECT_TRUE(process.failed());
  EXPECT_EQ(*process.ended() % kSecond, 0);
  EXPECT_LT(*process.ended(), 1'000'000 * kSecond);
}

}  // namespace
}  // namespace orrery::live

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
  while (!process.end_time()) {
    pollfd waiting{process.channel(), POLLIN, 0};
    poll(&waiting, 1, 1000);
    process.read_messages();
  }
}

void await_life(JobProcess& process) {
  while (!process.end_time() && process.alive_at() < 0) {
    pollfd waiting{process.channel(), POLLIN, 0};
    poll(&waiting, 1, 1000);
    process.read_messages();
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
  EXPECT_EQ(process.end_time(), 73 * kSecond);
  EXPECT_FALSE(process.has_failed());
  EXPECT_GE(clock.now(), 73 * kSecond);
}

TEST(JobProcess, AJobWithoutWorkEndsAtOnce) {
  const TraceClock clock(1000, 0);
  const GpuSlots slots;
  JobProcess process(slots, clock, order(0, 1, 0, 0));
  await_end(process);
  EXPECT_EQ(process.end_time(), 0);
}

TEST(JobProcess, NobodyElseHasItsSlotsUntilItIsGone) {
  const TraceClock clock(1000, 0);
  const GpuSlots slots;
  JobProcess first(slots, clock, order(0, 4, 0, 1'000'000 * kSecond));
  await_life(first);
  JobProcess taken(slots, clock, order(3, 2, 0, kSecond));
  await_end(taken);
  EXPECT_TRUE(taken.has_failed());
  JobProcess beside(slots, clock, order(4, 2, 0, kSecond));
  await_end(beside);
  EXPECT_FALSE(beside.has_failed());
  beside.wait_for_exit();  // an ended process may still have its slots
  first.kill_process();
  JobProcess after(slots, clock, order(3, 2, 0, kSecond));
  await_end(after);
  EXPECT_FALSE(after.has_failed());
}

TEST(JobProcess, OneThatSomebodyElseKillsHasFailed) {
  const TraceClock clock(1000, 0);
  const GpuSlots slots;
  JobProcess process(slots, clock, order(0, 1, 0, 1'000'000 * kSecond));
  await_life(process);
  kill(process.pid(), SIGKILL);
  await_end(process);
  EXPECT_TRUE(process.has_failed());
  EXPECT_EQ(*process.end_time() % kSecond, 0);
  EXPECT_LT(*process.end_time(), 1'000'000 * kSecond);
}

}  // namespace
}  // namespace orrery::live

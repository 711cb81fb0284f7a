#include "live/jobs/local_jobs.hpp"

#include <csignal>
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "policies/record/standing_book.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/drive.hpp"
#include "tests/sim/logged_job.hpp"

namespace orrery::live {
namespace {

using test::logged_job;

JobReplay cluster_with(std::uint32_t nodes, std::uint32_t size, const std::string& policy) {
  JobReplay replay;
  replay.set_nodes(nodes);
  replay.set_gpus_per_node(size);
  replay.set_policy(policy);
  replay.set_placement("consolidated");
  return replay;
}

LocalJobs::Estimates truth() {
  return {[](const TraceJob& job) { return job.duration_s * kNanosPerSecond; }};
}

/// Runs to its end.
std::vector<StandingBook::Line> run(LocalJobs& local, const JobReplay& replay) {
  const auto stack = make_stack(replay);
  StandingBook book(*stack);
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  drive(book, local, context);
  return book.lines();
}

using Line = StandingBook::Line;
constexpr auto kStarted = Line::What::started;
constexpr auto kStopped = Line::What::stopped;
constexpr auto kDone = Line::What::done;
constexpr Nanos kSecond = kNanosPerSecond;

GpuRuns range(std::uint32_t first, std::uint32_t count) { return GpuRuns::range({first}, count); }

TEST(LocalJobs, EndsOfOneSecondAreOneBatchBeforeItsArrivals) {
  // a and b end in the second in which c and d come: c gets all four GPUs, d waits.
  const std::vector<TraceJob> jobs{logged_job("a", 0, 2, 40), logged_job("b", 10, 2, 30),
                                   logged_job("c", 40, 4, 20), logged_job("d", 40, 1, 5)};
  const JobReplay replay = cluster_with(1, 4, "fifo");
  LocalJobs local(cluster_of(replay), jobs, truth(), {});
  const std::vector<Line> lines = run(local, replay);
  EXPECT_EQ(lines, (std::vector<Line>{{0, kStarted, {0}, range(0, 2)},
                                      {10 * kSecond, kStarted, {1}, range(2, 2)},
                                      {40 * kSecond, kDone, {0}},
                                      {40 * kSecond, kDone, {1}},
                                      {40 * kSecond, kStarted, {2}, range(0, 4)},
                                      {60 * kSecond, kDone, {2}},
                                      {60 * kSecond, kStarted, {3}, range(0, 1)},
                                      {65 * kSecond, kDone, {3}}}));
  EXPECT_EQ(local.processes(), 4u);
}

TEST(LocalJobs, AJobThatMakesRoomIsKilledAndGoesOnWhereItWas) {
  const std::vector<TraceJob> jobs{logged_job("long", 0, 4, 100), logged_job("short", 30, 4, 20)};
  const JobReplay replay = cluster_with(1, 4, "srtf");
  LocalJobs local(cluster_of(replay), jobs, truth(), {});
  std::vector<pid_t> processes;
  local.on_start([&](const JobProcess& process) { processes.push_back(process.pid()); });
  const std::vector<Line> lines = run(local, replay);
  EXPECT_EQ(lines, (std::vector<Line>{{0, kStarted, {0}, range(0, 4)},
                                      {30 * kSecond, kStopped, {0}},
                                      {30 * kSecond, kStarted, {1}, range(0, 4)},
                                      {50 * kSecond, kDone, {1}},
                                      {50 * kSecond, kStarted, {0}, range(0, 4)},
                                      {120 * kSecond, kDone, {0}}}));
  ASSERT_EQ(processes.size(), 3u);
  for (const pid_t pid : processes) EXPECT_EQ(kill(pid, 0), -1) << "gone, and reaped";
  EXPECT_EQ(local.outcomes()[0].kills, 1u);
  EXPECT_EQ(local.outcomes()[0].ran, 100 * kSecond);
}

TEST(LocalJobs, AJobWhoseProcessIsKilledFailsAndTheOthersGoOn) {
  const std::vector<TraceJob> jobs{logged_job("a", 0, 2, 100'000), logged_job("b", 0, 2, 60),
                                   logged_job("c", 10, 2, 10)};
  const JobReplay replay = cluster_with(1, 4, "fifo");
  LocalJobs local(cluster_of(replay), jobs, truth(), {});
  bool first = true;
  local.on_start([&](const JobProcess& process) {
    if (std::exchange(first, false)) kill(process.pid(), SIGKILL);
  });
  run(local, replay);
  EXPECT_TRUE(local.outcomes()[0].failed);
  EXPECT_FALSE(local.outcomes()[1].failed);
  EXPECT_EQ(local.outcomes()[2].ran, 10 * kSecond);
}

TEST(LocalJobs, OneThatHangsIsGivenUp) {
  const std::vector<TraceJob> jobs{logged_job("a", 0, 4, 100'000), logged_job("b", 5, 4, 10)};
  const JobReplay replay = cluster_with(1, 4, "fifo");
  LocalJobs local(cluster_of(replay), jobs, truth(),
                  {.patience = std::chrono::milliseconds(1500)});
  bool first = true;
  local.on_start([&](const JobProcess& process) {
    if (std::exchange(first, false)) kill(process.pid(), SIGSTOP);
  });
  run(local, replay);
  EXPECT_TRUE(local.outcomes()[0].failed);
  EXPECT_FALSE(local.outcomes()[1].failed);
  EXPECT_EQ(local.outcomes()[1].ran, 10 * kSecond);
}

TEST(LocalJobs, WhatIsTooLargeNeverComesAndARunMayBeCut) {
  const std::vector<TraceJob> jobs{logged_job("a", 0, 5, 10), logged_job("b", 0, 4, 100'000),
                                   logged_job("c", 20, 1, 10)};
  const JobReplay replay = cluster_with(1, 4, "fifo");
  LocalJobs local(cluster_of(replay), jobs, truth(), {.until = 60 * kSecond});
  const std::vector<Line> lines = run(local, replay);
  EXPECT_EQ(lines, (std::vector<Line>{{0, kStarted, {0}, range(0, 4)}}));
  EXPECT_TRUE(local.outcomes()[0].too_large);
  EXPECT_EQ(local.outcomes()[1].end, -1);
  EXPECT_EQ(local.outcomes()[2].start, -1);
}

}  // namespace
}  // namespace orrery::live

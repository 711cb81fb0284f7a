// Whole runs whose optimizer state is sharded (ZeRO-1): ranks die and come back, and the run ends
// with the bits of one in which every rank holds everything and nobody dies.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "live/run/files/run_files.hpp"
#include "tests/live/live_run.hpp"
#include "tests/live/watching.hpp"

namespace orrery::live {
namespace {

/// Four ranks, 60 steps of eight micro-batches of 20 ms.
RunRequest sixty_steps(const std::vector<std::string>& overrides) {
  std::vector<std::string> all{brisk_pace(), "run.steps=60"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return request(all);
}

Report run(const RunRequest& asked) { return run_in_worker(kProgram, asked); }

const std::string kSharded = "job.layout.shard=optimizer";

/// Returns the parameters' hash of a run of 60 steps in which every rank holds everything.
const std::string& undisturbed() {
  static const std::string hash = run(sixty_steps({})).parameters_sha256();
  return hash;
}

void expect_whole(const Report& report) {
  EXPECT_EQ(report.steps_completed(), 60u);
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_EQ(report.micro_batches_repeated(), 0u);
  EXPECT_EQ(report.parameters_sha256(), undisturbed());
}

TEST(ShardedRun, EndsWithTheBitsOfOneThatIsNotSharded) {
  for (const int ranks : {4, 2}) {
    expect_whole(run(sixty_steps({kSharded, fmt::format("job.layout.data={}", ranks)})));
  }
}

TEST(ShardedRun, KillsOneAfterTheOtherLoseNothing) {
  std::string faults;
  for (int i = 0; i < 6; ++i) {  // A slow machine needs more time between two.
    faults += fmt::format("{{rank: {}, at_step: {}, kill: true}}, ", i * 3 % 4, 4 + 10 * i);
  }
  const Report report = run(sixty_steps({kSharded, fmt::format("faults=[{}]", faults)}));
  expect_whole(report);
  EXPECT_GE(report.failures_size(), 3);
}

TEST(ShardedRun, AKillAsTheLastStepEndsLosesNothing) {
  for (const char* at : {"59", "58"}) {
    expect_whole(
        run(sixty_steps({kSharded,
                         fmt::format("faults=[{{rank: 2, at_step: {}, kill: true}}]", at)})));
  }
}

TEST(ShardedRun, TwoNeighboursAtOnceLoseNothing) {
  const Report report = run(sixty_steps({kSharded,
                                     "faults=[{rank: 1, at_step: 5, kill: true}, "
                                     "{rank: 2, at_step: 5, kill: true}]"}));
  expect_whole(report);
  EXPECT_EQ(report.failures_size(), 2);
}

/// Ranks 0 and 1 stand on one node, 2 and 3 on the other.
TEST(ShardedRun, AWholeNodeAtOnceLosesNothing) {
  const Report report = run(sixty_steps(
      {kSharded, "cluster.nodes=2", "cluster.node.gpus_per_node=2", "cluster.node.nics_per_node=2",
       "faults=[{rank: 2, at_step: 5, kill: true}, {rank: 3, at_step: 5, kill: true}]"}));
  expect_whole(report);
  EXPECT_EQ(report.failures_size(), 2);
}

TEST(ShardedRun, OneLostWithTheKeeperOfItsCopyEndsTheRunWhichSaysSo) {
  const Report report = run(sixty_steps({kSharded,
                                     "faults=[{rank: 0, at_step: 5, kill: true}, "
                                     "{rank: 2, at_step: 5, kill: true}]"}));
  EXPECT_LT(report.steps_completed(), 60u);
  EXPECT_NE(report.unfinished().find("the optimizer's state of parameters"), std::string::npos)
      << report.unfinished();
  EXPECT_NE(report.unfinished().find(kStateGone), std::string::npos) << report.unfinished();
}

constexpr std::chrono::milliseconds kTimeout{kSanitized ? 2000 : 500};

void send_signal(pid_t process, int number) {
  if (process > 0) kill(process, number);  // 0: it has ended
}

/// Returns a sharded run whose silent ranks are lost after kTimeout, and whose lost ranks are
/// replaced.
RunRequest impatient() {
  return sixty_steps({kSharded, "policies=[]", "survival.on_loss=replace",
                      fmt::format("survival.heartbeat_timeout={} ms", kTimeout.count())});
}

const Needs kEvents{.actions = {}, .settings = {}, .step_times = true};

/// Rank 0 is stopped for 1.5 s, longer than the timeout, and the keeper of the copy of its part is
/// killed 0.3 s after the stop: the others wait for rank 0.
TEST(ShardedRun, AStallAndTheDeathOfTheKeeperOfItsCopyLoseNothing) {
  std::jthread faults;
  Watching policy(kEvents, [&faults](const Observation& seen, DecisionList&) {
    const auto* done = shown<StepsDone>(seen);
    if (done == nullptr || done->last < 3 || faults.joinable()) return;
    faults = std::jthread([] {
      const pid_t stopped = agent_on(0);
      send_signal(stopped, SIGSTOP);
      std::this_thread::sleep_for(kTimeout * 3 / 5);
      send_signal(agent_on(2), SIGKILL);
      std::this_thread::sleep_for(kTimeout * 12 / 5);
      send_signal(stopped, SIGCONT);
    });
  });
  const Report report = run_in_worker(kProgram, impatient(), &policy);
  expect_whole(report);
  EXPECT_GE(report.failures_size(), 1);
  expect_nothing_left();
}

/// The keeper dies when rank 0 counts as lost: before or after the others have shared the state.
TEST(ShardedRun, TheDeathOfTheKeeperAsTheSilentRankCountsAsLostLosesNothing) {
  Watching policy(kEvents, [stopped = pid_t{0}](const Observation& seen, DecisionList&) mutable {
    const auto* done = shown<StepsDone>(seen);
    if (done != nullptr && done->last >= 3 && stopped == 0) {
      stopped = agent_on(0);
      send_signal(stopped, SIGSTOP);
    }
    const auto* lost = shown<RanksLost>(seen);
    if (lost == nullptr || lost->ranks != std::vector<RankId>{{0}}) return;
    send_signal(agent_on(2), SIGKILL);
    send_signal(stopped, SIGCONT);
  });
  const Report report = run_in_worker(kProgram, impatient(), &policy);
  expect_whole(report);
  EXPECT_GE(report.failures_size(), 1);
  expect_nothing_left();
}

TEST(ShardedRun, GoesOnFromItsCheckpointsWithAnyNumberOfRanks) {
  const std::string folder = testing::TempDir() + "orrery_sharded." + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  const Report first =
      run(sixty_steps({kSharded, "run.steps=20",
                   fmt::format("checkpoints={{folder: {}, every: 10}}", folder)}));
  EXPECT_EQ(first.checkpoints_written(), 2u);
  for (const auto& [shard, ranks] : {std::pair("optimizer", 2), std::pair("nothing", 4)}) {
    RunRequest rest = sixty_steps(
        {fmt::format("job.layout.shard={}", shard), fmt::format("job.layout.data={}", ranks)});
    rest.set_resume_from(folder);
    const Report second = run(rest);
    EXPECT_EQ(second.steps_completed(), 40u);
    EXPECT_EQ(second.parameters_sha256(), undisturbed());
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace orrery::live

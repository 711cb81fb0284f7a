// Whole live runs: a controller and its agents, started as the command line starts them.
#include "live/run/live_backend.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <limits>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/run/files/run_folder.hpp"
#include "policies/run/replay.hpp"
#include "tests/live/live_run.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery::live {
namespace {

void expect_failure(const RunRequest& asked, ErrorKind kind, const std::string& part) {
  try {
    run_in_worker(kProgram, asked);
    FAIL() << "the run went well";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
  expect_nothing_left();
}

TEST(LiveBackend, TrainsAndAccountsForEveryMicroBatch) {
  const RunRequest asked = request({"run.steps=30", "job.global_batch=16"});
  const double pace = to_seconds(asked.scenario().job().pace().micro_batch());
  const Report report = run_in_worker(kProgram, asked);
  EXPECT_EQ(report.mode(), "live");
  EXPECT_EQ(report.ranks(), 4u);
  EXPECT_EQ(report.steps_completed(), 30u);
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_EQ(report.micro_batches_repeated(), 0u);
  EXPECT_EQ(report.micro_batches_recomputed(), 0u);
  EXPECT_EQ(report.parameters_sha256().size(), 64u);
  EXPECT_EQ(report.losses_size(), 30);
  EXPECT_LT(report.final_loss(), report.unigram_entropy());
  EXPECT_GT(report.final_loss(), 0.5);  // a text is not learned in thirty steps
  EXPECT_GE(report.step_time_s(), 4 * pace);
  EXPECT_DOUBLE_EQ(report.ideal_step_time_s(), 4 * pace);
  EXPECT_FALSE(report.has_mfu());
  EXPECT_GT(report.real_cpu_cores(), 0);
  EXPECT_NEAR(report.breakdown().compute() + report.breakdown().waiting() +
                  report.breakdown().exposed_communication(),
              1, 1e-9);
  expect_nothing_left();
}

/// Micro-batches that the last shift in a log leaves to a replica; none: as many as can be.
std::uint32_t last_share_of(int replica, const std::string& log) {
  std::uint32_t share = std::numeric_limits<std::uint32_t>::max();
  for (const LogRecord& record : toy::read_log(log)) {
    for (const DecisionRecord& decision : record.call().decisions()) {
      if (!decision.configure().what().has_shares()) continue;
      share = decision.configure().what().shares().per_replica(replica);
    }
  }
  return share;
}

TEST(LiveBackend, AShiftSparesTheStragglerAndTrainsTheSameModel) {
  const std::vector<std::string> slow{"job.global_batch=24", "run.steps=12",
                                      "faults=[{rank: 2, at_step: 2, slow: 4}]"};
  std::vector<std::string> shifting = slow;
  shifting.push_back("policies=[{name: predictive-rebalance}]");
  const std::string log = ::testing::TempDir() + "/live-shift.log";
  RunRequest recorded = request(shifting);
  recorded.set_record(log);

  const Report left_alone = run_in_worker(kProgram, request(slow));
  const Report shifted = run_in_worker(kProgram, recorded);
  EXPECT_EQ(left_alone.decisions(), 0u);
  EXPECT_GE(shifted.decisions(), 1u);
  EXPECT_EQ(shifted.faults_injected(), 1u);
  // Pacing never ends early: left alone, the straggler needs 6 x 160 ms in every step.
  EXPECT_GE(
      *std::min_element(left_alone.step_times_s().begin() + 2, left_alone.step_times_s().end()),
      0.959);
  EXPECT_LT(last_share_of(2, log), 6u) << "a fair share of 24 micro-batches";
  EXPECT_EQ(shifted.micro_batches_lost() + shifted.micro_batches_repeated(), 0u);
  EXPECT_NEAR(shifted.final_loss(), left_alone.final_loss(), 1e-3 * left_alone.final_loss());

  const ReplayResult replay = replay_log(log, {});
  EXPECT_EQ(replay.first_difference, "");
  EXPECT_EQ(replay.decisions, shifted.decisions());
  EXPECT_EQ(replay.decision_trace_sha256, shifted.decision_trace_sha256());
  std::filesystem::remove(log);
  expect_nothing_left();
}

/// Every step done, no micro-batch lost or doubled.
void expect_whole(const Report& report, std::uint64_t steps) {
  EXPECT_EQ(report.steps_completed(), steps);
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_EQ(report.micro_batches_repeated(), 0u);
}

/// Each failure was noticed, known to all, worked round and overcome, in this order.
void expect_overcome(const Report& report) {
  for (const FailureReport& failure : report.failures()) {
    EXPECT_LE(failure.time_s(), failure.detected_s());
    EXPECT_LE(failure.detected_s(), failure.known_s());
    EXPECT_LE(failure.known_s(), failure.working_s());
    EXPECT_LE(failure.working_s(), failure.resumed_s());
    EXPECT_EQ(failure.lost_steps(), 0u);
  }
}

/// Sets `trains` after the first step: whoever is disturbed earlier has not joined yet.
Report run_watched(const RunRequest& request, std::atomic<bool>& trains) {
  return run_in_worker(kProgram, request, nullptr, [&trains](const Progress& progress) {
    if (progress.steps_done() > 0) trains = true;
  });
}

TEST(LiveBackend, TheOthersGoOnWithoutAKilledRankAndEndWithTheSameParameters) {
  const Report calm = run_in_worker(kProgram, request({}));
  const Report report = run_in_worker(
      kProgram, request({"faults=[{rank: 1, at_step: 2, kill: true}]",
                         "policies=[{name: recover, parameters: {how: shrink}}]"}));
  expect_whole(report, 6);
  ASSERT_EQ(report.failures_size(), 1);
  EXPECT_NE(report.failures(0).cause().find("rank 1 killed by signal 9"), std::string::npos)
      << report.failures(0).cause();
  expect_overcome(report);
  EXPECT_FALSE(report.failures(0).has_replaced_s());
  EXPECT_EQ(report.decisions(), 1u);
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
  expect_nothing_left();
}

TEST(LiveBackend, AReplacementTakesThePlaceOfARankKilledFromOutside) {
  const Report calm = run_in_worker(kProgram, request({"run.steps=60"}));
  std::atomic<int> kills = 0;
  std::atomic<bool> trains = false;
  const std::jthread killer([&](const std::stop_token& stop) {
    EXPECT_TRUE(eventually([&trains] { return trains.load(); }));
    while (!stop.stop_requested() && kills < 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      const auto found = agents();
      if (found.size() == 4 && kill(found[static_cast<std::size_t>(kills)], SIGKILL) == 0) ++kills;
    }
  });
  const Report report = run_watched(request({"run.steps=60"}), trains);
  expect_whole(report, 60);
  EXPECT_GE(report.failures_size(), 1);
  EXPECT_LE(report.failures_size(), kills);
  expect_overcome(report);
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
  expect_nothing_left();
}

TEST(LiveBackend, AStoppedRankIsLostAfterTheHeartbeatTimeout) {
  std::atomic<bool> trains = false;
  const std::jthread stopper([&trains] {
    EXPECT_TRUE(eventually([&trains] { return trains.load(); }));
    const auto found = agents();
    if (!found.empty()) kill(found.front(), SIGSTOP);
  });
  const Report report = run_watched(request({"run.steps=60"}), trains);
  expect_whole(report, 60);
  ASSERT_GE(report.failures_size(), 1);
  EXPECT_NE(report.failures(0).cause().find("sent no heartbeat for 1.0 s"), std::string::npos)
      << report.failures(0).cause();
  expect_overcome(report);
  expect_nothing_left();
}

TEST(LiveBackend, WithNobodyLeftTheRunEndsWithItsCause) {
  const Report report = run_in_worker(
      kProgram, request({"faults=[{rank: 0, at_step: 3, kill: true}]", "job.layout.data=1"}));
  expect_whole(report, 3);
  ASSERT_EQ(report.failures_size(), 1);
  EXPECT_FALSE(report.failures(0).has_resumed_s());
  EXPECT_FALSE(report.has_parameters_sha256());
  expect_nothing_left();
}

TEST(LiveBackend, AKilledSupervisorLeavesNoProcessBehind) {
  ChildProcess supervisor(kProgram, {});
  ASSERT_TRUE(write_message(supervisor.channel(), request({"run.steps=1000"}).SerializeAsString()));
  ASSERT_TRUE(eventually([] { return agents().size() == 4; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  supervisor.signal(SIGKILL);
  EXPECT_EQ(supervisor.wait().signal, SIGKILL);
  EXPECT_TRUE(eventually([] { return agents().empty(); }));
  const RunFolder next;  // takes away the folder that was left
  std::error_code ignored;
  std::filesystem::remove_all(next.path(), ignored);
  expect_nothing_left();
}

TEST(LiveBackend, WorkThatThePaceCannotHoldFailsTheRun) {
  expect_failure(request({"job.pace.micro_batch=1 ms", "job.sequence_length=512"}),
                 ErrorKind::environment, "job.pace.micro_batch");
}

TEST(LiveBackend, RefusesWhatItCannotRun) {
  expect_failure(request({"live.text=/no/such/text"}), ErrorKind::bad_input, "live.text");
  expect_failure(request({"faults=[{rank: 1, at_time: 1 s, link_down: true}]"}),
                 ErrorKind::bad_input, "faults[0].link_down");
  RunRequest dance = request({});
  dance.set_mode("dance");
  expect_failure(dance, ErrorKind::usage, "dance");
  RunRequest nccl = request({});
  nccl.set_fabric("nccl");
  expect_failure(nccl, ErrorKind::environment, "nccl");
}

}  // namespace
}  // namespace orrery::live

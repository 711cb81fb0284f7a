// Whole runs attacked from outside, by process id, as on a shared machine. Every run has to end
// with the bits of an undisturbed one.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "live/run/files/run_files.hpp"
#include "tests/live/live_run.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

std::future<Report> begin(const RunRequest& asked) {
  return std::async(std::launch::async, [asked] { return run_in_worker(kProgram, asked); });
}

/// Returns the processes of this test's own runs: others may run on this machine at the same time.
std::vector<pid_t> own(const std::string& role) {
  std::vector<pid_t> found = processes(role);
  std::erase_if(found, [](pid_t each) {
    const pid_t parent = parent_of(each);
    return parent != getpid() && parent_of(parent) != getpid();
  });
  std::ranges::sort(found);
  return found;
}

/// Four agents that have worked for a while.
bool all_at_work() {
  if (!eventually([] { return own("agent").size() == 4; })) return false;
  std::this_thread::sleep_for(milliseconds(1500));
  return own("agent").size() == 4;
}

void expect_same(const Report& report, const Report& calm) {
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
  EXPECT_EQ(report.steps_completed(), calm.steps_completed());
  EXPECT_EQ(report.micro_batches_lost() + report.micro_batches_repeated(), 0u);
  EXPECT_FALSE(report.has_unfinished()) << report.unfinished();
}

const char* const kSteps = "run.steps=60";

const Report& calm_run() {
  static const Report calm = run_in_worker(kProgram, request({kSteps}));
  return calm;
}

TEST(Attack, AllRanksStoppedAtOnceAreWaitedFor) {
  const Report calm = calm_run();
  auto report = begin(request({kSteps}));
  ASSERT_TRUE(all_at_work());
  const std::vector<pid_t> stopped = own("agent");
  for (const pid_t each : stopped) kill(each, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(4000));
  for (const pid_t each : stopped) kill(each, SIGCONT);
  const Report told = report.get();
  expect_same(told, calm);
  EXPECT_EQ(told.failures_size(), 0);
  EXPECT_TRUE(std::ranges::any_of(told.warnings(), [](const std::string& warning) {
    return warning.find("ranks without heartbeats hold training state") != std::string::npos;
  })) << "an operator is told";
}

/// The only processes with the training state are silent for longer than the timeout, while the
/// successor of the dead one is heard. If the successor has received the state before the stall,
/// the others are lost; otherwise they are waited for.
TEST(Attack, AKillAndThenAStallOfAllOthersLosesNothing) {
  const Report calm = calm_run();
  auto report = begin(request({kSteps}));
  ASSERT_TRUE(all_at_work());
  const std::vector<pid_t> all = own("agent");
  kill(all.at(1), SIGKILL);
  std::this_thread::sleep_for(milliseconds(200));
  for (const pid_t each : {all[0], all[2], all[3]}) kill(each, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(1500));
  for (const pid_t each : {all[0], all[2], all[3]}) kill(each, SIGCONT);
  const Report told = report.get();
  expect_same(told, calm);
  EXPECT_GE(told.failures_size(), 1);
}

TEST(Attack, TheLastRankGoesOnAfterAStopThoughAllOthersAreDead) {
  const Report calm = calm_run();
  auto report = begin(request({kSteps}));
  ASSERT_TRUE(all_at_work());
  const std::vector<pid_t> all = own("agent");
  kill(all.at(0), SIGSTOP);
  std::this_thread::sleep_for(milliseconds(300));
  for (const pid_t each : {all[1], all[2], all[3]}) kill(each, SIGKILL);
  std::this_thread::sleep_for(milliseconds(2000));
  kill(all[0], SIGCONT);
  const Report told = report.get();
  expect_same(told, calm);
  EXPECT_EQ(told.failures_size(), 3);
}

/// The policy wants replacements, but nobody is left to give them the training state.
TEST(Attack, ARunWithoutAnyRankEndsAtOnceAndSaysWhy) {
  auto report = begin(request({kSteps, "policies=[{name: recover, parameters: {how: replace}}]"}));
  ASSERT_TRUE(all_at_work());
  for (const pid_t each : own("agent")) kill(each, SIGKILL);
  ASSERT_EQ(report.wait_for(std::chrono::seconds(60)), std::future_status::ready)
      << "it waits for the limit of a hold, ten minutes";
  const Report told = report.get();
  EXPECT_EQ(told.failures_size(), 4);
  EXPECT_NE(told.unfinished().find(kStateGone), std::string::npos) << told.unfinished();
  EXPECT_NE(told.unfinished().find("killed by signal 9"), std::string::npos) << told.unfinished();
}

TEST(Attack, ASuspendedMachineGoesOnWhereItWas) {
  const Report calm = calm_run();
  auto report = begin(request({kSteps, "live.progress_timeout=6 s"}));
  ASSERT_TRUE(all_at_work());
  const std::vector<pid_t> all = own("");  // supervisor, controller, agents
  for (const pid_t each : all) kill(each, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(8000));
  for (const pid_t each : all) kill(each, SIGCONT);
  const Report told = report.get();
  expect_same(told, calm);
  EXPECT_EQ(told.controller_restarts(), 0u);
  EXPECT_EQ(told.failures_size(), 0) << "who did not watch blames nobody";
  for (const std::string& warning : told.warnings()) {
    EXPECT_EQ(warning.find("has made progress"), std::string::npos) << warning;
  }
}

/// The next descriptor that this process opens is one too many, for so long.
void starve_of_descriptors(pid_t process, milliseconds span) {
  rlim_t free = 0;
  while (fs::exists(fs::symlink_status(fmt::format("/proc/{}/fd/{}", process, free)))) ++free;
  rlimit before{};
  ASSERT_EQ(prlimit(process, RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit starved{free, before.rlim_max};
  ASSERT_EQ(prlimit(process, RLIMIT_NOFILE, &starved, nullptr), 0);
  std::this_thread::sleep_for(span);
  // skipped for a process that has already ended
  prlimit(process, RLIMIT_NOFILE, &before, nullptr);
}

/// A port that gRPC gives up for want of a descriptor would keep every replacement out.
TEST(Attack, AControllerWithoutADescriptorForWhoeverJoinsLetsThemInLater) {
  const Report calm = run_in_worker(kProgram, request({"run.steps=90"}));
  auto report = begin(request({"run.steps=90"}));
  ASSERT_TRUE(all_at_work());
  const pid_t controller = own("controller").at(0);
  std::jthread starving([controller] { starve_of_descriptors(controller, milliseconds(1200)); });
  std::this_thread::sleep_for(milliseconds(200));
  kill(own("agent").at(1), SIGKILL);
  const Report told = report.get();
  expect_same(told, calm);
  ASSERT_EQ(told.failures_size(), 1);
  EXPECT_TRUE(told.failures(0).has_replaced_s());
}

/// The thread that trains stands still, the one that sends heartbeats does not.
TEST(Attack, ARankThatHangsIsNamedAndReplaced) {
  const Report calm = calm_run();
  auto report = begin(request({kSteps, "live.progress_timeout=3 s"}));
  ASSERT_TRUE(all_at_work());
  const pid_t victim = own("agent")[2];
  if (ptrace(PTRACE_SEIZE, victim, nullptr, nullptr) != 0) {
    report.get();
    GTEST_SKIP() << "no process may be traced here";
  }
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, victim, nullptr, nullptr), 0);
  // A tracer learns of the end first; the loop has a limit.
  bool ended = false;
  for (int i = 0; i < 6000 && !ended; ++i) {
    int status = 0;
    ended = waitpid(victim, &status, __WALL | WNOHANG) == victim && WIFSIGNALED(status);
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(ended);
  if (!ended) kill(victim, SIGKILL);
  const Report told = report.get();
  expect_same(told, calm);
  ASSERT_GE(told.failures_size(), 1);
  EXPECT_NE(told.failures(0).cause().find("sent heartbeats but made no progress"),
            std::string::npos)
      << told.failures(0).cause();
  EXPECT_TRUE(told.failures(0).has_resumed_s());
}

class WithCheckpoints : public ::testing::Test {
 protected:
  WithCheckpoints() { fs::remove_all(folder_); }
  ~WithCheckpoints() override { fs::remove_all(folder_); }
  RunRequest asked(const std::string& steps, int every) const {
    return request({steps, fmt::format("checkpoints={{folder: {}, every: {}, keep: 2}}",
                                       folder_, every)});
  }
  std::vector<std::string> files(const std::string& part) const {
    std::vector<std::string> found;
    std::error_code none;
    for (fs::directory_iterator at(folder_, none), end; !none && at != end; at.increment(none)) {
      const std::string name = at->path().filename();
      if (name.find(part) != std::string::npos) found.push_back(name);
    }
    return found;
  }
  const std::string folder_ = ::testing::TempDir() + "orrery_attack." + std::to_string(getpid());
};

/// Orders a run to stop with a checkpoint.
void order_stop(const std::string& name) {
  for (const auto& entry : fs::directory_iterator(run_parent())) {
    std::string status;
    if (!std::getline(std::ifstream(entry.path() / kStatusFile), status)) continue;
    if (status.find(name) == std::string::npos) continue;
    std::ofstream(entry.path() / kStopFile) << "checkpoint\n";
  }
}

TEST_F(WithCheckpoints, AnOrderToStopDuringTheLastStepLeavesACheckpointToo) {
  RunRequest only = asked("run.steps=1", 1000);
  const std::string name = fmt::format("stopped at last by {}", getpid());
  only.mutable_scenario()->set_name(name);
  only.mutable_scenario()->mutable_job()->mutable_pace()->set_micro_batch(2 * kNanosPerSecond);
  auto report = begin(only);
  ASSERT_TRUE(all_at_work());
  order_stop(name);
  const Report told = report.get();
  EXPECT_EQ(told.steps_completed(), 1u);
  EXPECT_EQ(told.checkpoints_written(), 1u);
  EXPECT_EQ(files("manifest").size(), 1u);
}

TEST_F(WithCheckpoints, AnOrderToStopLeavesOneFromWhichTheRunGoesOn) {
  const Report calm = calm_run();
  RunRequest first = asked(kSteps, 1000);
  const std::string name = fmt::format("stopped by {}", getpid());
  first.mutable_scenario()->set_name(name);
  auto report = begin(first);
  ASSERT_TRUE(all_at_work());
  order_stop(name);
  const Report stopped = report.get();
  EXPECT_TRUE(stopped.has_unfinished());
  EXPECT_NE(stopped.unfinished().find("stopped by the operator"), std::string::npos);
  EXPECT_LT(stopped.steps_completed(), 60u);
  EXPECT_EQ(stopped.checkpoints_written(), 1u);
  EXPECT_EQ(stopped.failures_size(), 0);
  first.set_resume_from(folder_);
  const Report rest = run_in_worker(kProgram, first);
  EXPECT_EQ(rest.parameters_sha256(), calm.parameters_sha256());
  EXPECT_EQ(rest.steps_completed() + stopped.steps_completed(), 60u);
}

/// Once the first shard of the last checkpoint is there, a rank that writes it is killed.
TEST_F(WithCheckpoints, TheLastOneIsThereWhoeverDiesWhileItIsWritten) {
  const Report calm = run_in_worker(kProgram, request({"run.steps=20"}));
  for (int i = 0; i < 3; ++i) {
    fs::remove_all(folder_);
    auto report = begin(asked("run.steps=20", 20));
    eventually([&] { return !files("").empty(); });
    if (const std::vector<pid_t> there = own("agent"); !there.empty()) kill(there.back(), SIGKILL);
    const Report told = report.get();
    expect_same(told, calm);
    EXPECT_EQ(files("manifest").size(), 1u);
    for (const FailureReport& failure : told.failures()) {
      EXPECT_TRUE(failure.has_resumed_s()) << "what was to be done had been done";
    }
  }
}

TEST_F(WithCheckpoints, AFolderThatCannotBeWrittenToFailsTheRunAtItsEndAndNotBefore) {
  RunRequest first = asked("run.steps=20", 10);
  auto report = begin(first);
  ASSERT_TRUE(eventually([&] { return fs::exists(folder_); }));
  // A file in the place of the folder: every name in the opened one is gone.
  fs::remove_all(folder_);
  std::ofstream(folder_) << "in the way";
  const Report told = report.get();
  EXPECT_EQ(told.steps_completed(), 20u);
  EXPECT_EQ(told.parameters_sha256().size(), 64u);
  EXPECT_EQ(told.checkpoints_written(), 0u);
  ASSERT_TRUE(told.has_unfinished());
  EXPECT_NE(told.unfinished().find("checkpoint"), std::string::npos);
}

/// A log whose disk takes nothing any more: a pipe of a page that nobody empties.
TEST(Attack, AHungDiskOfTheLogHoldsNobodyUp) {
  const Report calm = calm_run();
  const std::string pipe = ::testing::TempDir() + "orrery_hung." + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int other_end = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(fcntl(other_end, F_SETPIPE_SZ, 4096), 4096);
  const std::string full(4096, 'x');
  ASSERT_EQ(write(other_end, full.data(), full.size()), 4096);
  RunRequest asked = request({kSteps, "live.journal_tail=4 KiB"});
  asked.set_record(pipe);
  const Report told = run_in_worker(kProgram, asked);
  close(other_end);
  unlink(pipe.c_str());
  expect_same(told, calm);
  EXPECT_EQ(told.failures_size(), 0);
  EXPECT_TRUE(std::ranges::any_of(told.warnings(), [](const std::string& warning) {
    return warning.find("the disk of the log does not respond") != std::string::npos;
  }));
}

/// A log that cannot grow any more is given up, and the run goes on.
TEST(Attack, AFullDiskOfTheLogEndsNothing) {
  const Report calm = calm_run();
  RunRequest asked = request({kSteps, "live.journal_tail=4 KiB"});
  asked.set_record("/dev/full");
  const Report told = run_in_worker(kProgram, asked);
  expect_same(told, calm);
  EXPECT_TRUE(std::ranges::any_of(told.warnings(), [](const std::string& warning) {
    return warning.find("the run continues without its log") != std::string::npos;
  }));
}

}  // namespace
}  // namespace orrery::live

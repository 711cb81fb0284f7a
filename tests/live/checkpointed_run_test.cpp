// Whole runs that write checkpoints: continued, with a full disk, with ranks killed while writing.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/checkpoint/archive.hpp"
#include "live/run/checkpoints/run_checkpoints.hpp"
#include "live/training/device.hpp"
#include "policies/run/worker.hpp"
#include "tests/live/live_run.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

class CheckpointedRun : public testing::Test {
 protected:
  CheckpointedRun() { fs::remove_all(path_); }
  ~CheckpointedRun() override { fs::remove_all(path_); }

  /// Four ranks, eight micro-batches of 20 ms a step.
  static RunRequest request(std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), brisk_pace());
    return live::request(overrides);
  }

  std::string checkpoints(int every, int keep) const {
    return fmt::format("checkpoints={{folder: {}, every: {}, keep: {}}}", path_, every, keep);
  }

  static Report run(const RunRequest& request) { return run_in_worker(kProgram, request); }

  /// The parameters' hash of the newest whole checkpoint; its step.
  std::pair<Step, std::string> newest(const RunRequest& request) const {
    RunRequest next = request;
    next.set_resume_from(path_);
    next.mutable_scenario()->mutable_run()->set_steps(1'000'000);
    const RunCheckpoints found(next, Text::load(request.scenario().live().text()));
    Assignment assignment;
    *assignment.mutable_scenario() = request.scenario();
    found.fill(assignment);
    const auto device = make_cpu_device(7, 0.003, request.scenario().job().model().builtin());
    device->restore_state(load_checkpoint(assignment));
    return {found.first_step(), device->parameters_sha256()};
  }

  std::vector<std::string> files(const std::string& part) const {
    std::vector<std::string> names;
    std::error_code failure;  // the folder is not there yet
    for (fs::directory_iterator at(path_, failure), end; !failure && at != end;
         at.increment(failure)) {
      const std::string name = at->path().filename();
      if (name.find(part) != std::string::npos) names.push_back(name);
    }
    return names;
  }

  const std::string path_ = testing::TempDir() + "orrery_run." + std::to_string(getpid());
};

/// The process of one rank of our runs; 0: none now.
pid_t agent(std::uint32_t rank) {
  const std::string arguments = std::string("agent\0--rank\0", 13) + std::to_string(rank) + '\0';
  for (const pid_t process : agents()) {
    std::ostringstream line;
    line << std::ifstream(fmt::format("/proc/{}/cmdline", process)).rdbuf();
    if (line.str().ends_with(arguments)) return process;
  }
  return 0;
}

TEST_F(CheckpointedRun, WritesThemWhileItTrainsAndKeepsTheNewest) {
  const RunRequest asked = request({"run.steps=9", checkpoints(2, 2)});
  const Report report = run(asked);
  EXPECT_EQ(report.steps_completed(), 9u);
  EXPECT_EQ(report.checkpoints_written(), 4u);
  EXPECT_EQ(report.checkpoints_failed(), 0u);
  EXPECT_GT(report.checkpoint_bytes(), 0);
  EXPECT_EQ(files("manifest").size(), 2u);
  EXPECT_EQ(files("").size(), 2u * 5) << "four shards and a manifest each";
  EXPECT_EQ(newest(asked).first, 8u);
}

TEST_F(CheckpointedRun, ARunThatGoesOnEndsWithTheBitsOfAnUninterruptedOne) {
  const Report calm = run(request({"run.steps=10"}));
  const RunRequest first = request({"run.steps=6", checkpoints(3, 1)});
  const Report half = run(first);
  EXPECT_EQ(newest(first), std::pair(Step{6}, half.parameters_sha256()))
      << "the last step's checkpoint is durable before the run ends";
  for (const char* ranks : {"4", "2"}) {
    RunRequest second = request({"run.steps=10", fmt::format("job.layout.data={}", ranks),
                                 "faults=[{rank: 1, at_step: 2, kill: true}]"});
    second.set_resume_from(path_);
    const Report rest = run(second);
    EXPECT_EQ(rest.steps_completed(), 4u);
    EXPECT_EQ(rest.parameters_sha256(), calm.parameters_sha256()) << ranks << " ranks";
    EXPECT_EQ(rest.failures_size(), 0) << "that fault has struck the first run";
    EXPECT_EQ(rest.micro_batches_lost(), 0u);
  }
}

TEST_F(CheckpointedRun, AReplacementInAContinuedRunTakesAPeersState) {
  const Report calm = run(request({"run.steps=40"}));
  run(request({"run.steps=4", checkpoints(4, 1)}));
  RunRequest second = request({"run.steps=40", "faults=[{rank: 2, at_step: 6, kill: true}]",
                               checkpoints(5, 1)});
  second.set_resume_from(path_);
  const Report rest = run(second);
  ASSERT_EQ(rest.failures_size(), 1);
  EXPECT_EQ(rest.steps_completed(), 36u);
  EXPECT_EQ(rest.parameters_sha256(), calm.parameters_sha256());
  EXPECT_EQ(rest.checkpoints_written() + rest.checkpoints_failed(), 8u);
  EXPECT_EQ(newest(second).first, 40u);
  EXPECT_EQ(files("manifest").size(), 1u) << "the earlier run's checkpoint was taken over";
}

TEST_F(CheckpointedRun, WithoutACheckpointThereIsNothingToGoOnFrom) {
  fs::create_directories(path_);
  RunRequest asked = request({});
  asked.set_resume_from(path_);
  try {
    run(asked);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find("expected a complete checkpoint"), std::string::npos);
  }
}

TEST_F(CheckpointedRun, AFullDiskHarmsNeitherTheRunNorTheCheckpointBefore) {
  const Report calm = run(request({"run.steps=40"}));
  const RunRequest asked = request({"run.steps=40", checkpoints(4, 1)});
  std::jthread disk([this](const std::stop_token& stop) {
    while (!stop.stop_requested() && files("manifest").empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const rlimit full{.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
    const pid_t rank = agent(2);
    EXPECT_NE(rank, 0);
    EXPECT_EQ(prlimit(rank, RLIMIT_FSIZE, &full, nullptr), 0);
  });
  const Report report = run(asked);
  EXPECT_EQ(report.failures_size(), 0) << "SIGXFSZ does not end a rank";
  EXPECT_EQ(report.steps_completed(), 40u);
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
  EXPECT_GE(report.checkpoints_written(), 1u);
  EXPECT_GE(report.checkpoints_failed(), 1u);
  EXPECT_EQ(report.checkpoints_written() + report.checkpoints_failed(), 10u + 3u)
      << "the last one is tried three times more";
  EXPECT_NE(report.unfinished().find("the checkpoint of step 40 failed"), std::string::npos);
  ASSERT_GE(report.warnings_size(), 1);
  EXPECT_NE(report.warnings(0).find("File too large"), std::string::npos) << report.warnings(0);
  EXPECT_EQ(newest(asked).first, 4 * report.checkpoints_written());
  EXPECT_EQ(files("").size(), 5u) << "what failed has left nothing";
}

TEST_F(CheckpointedRun, ARankThatIsKilledWhileItWritesHarmsNeither) {
  const Report calm = run(request({"run.steps=60"}));
  const RunRequest asked = request({"run.steps=60", checkpoints(3, 1)});
  int kills = 0;
  std::jthread killer([this, &kills](const std::stop_token& stop) {
    while (!stop.stop_requested() && kills < 3) {
      const bool writes = !files(fmt::format("shard-{}-of-4.part", kills)).empty();
      std::this_thread::sleep_for(std::chrono::milliseconds(writes ? 0 : 1));
      if (!writes) continue;
      const pid_t rank = agent(static_cast<std::uint32_t>(kills));
      if (rank != 0 && kill(rank, SIGKILL) == 0) ++kills;
    }
  });
  const Report report = run(asked);
  killer.request_stop();
  killer.join();
  EXPECT_GE(kills, 1);
  EXPECT_LE(report.failures_size(), kills);
  EXPECT_GE(report.failures_size(), kills - 1) << "the last one may come when all is handed in";
  EXPECT_FALSE(report.has_unfinished()) << report.unfinished();
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_GE(report.checkpoints_written() + report.checkpoints_failed(), 20u);
  const auto [step, hash] = newest(asked);
  EXPECT_EQ(step, 60u) << "the last one is tried once more";
  EXPECT_EQ(hash, calm.parameters_sha256());
}

/// A byte of the newest checkpoint changes on the disk before all ranks restart from it.
TEST_F(CheckpointedRun, ARestartPassesOverADamagedCheckpointAndNamesTheFile) {
  const Report calm = run(request({"run.steps=20"}));
  std::jthread disk([this](const std::stop_token& stop) {
    const auto is_newest = [](const std::string& name) {
      return name.starts_with("step-000000000010") && name.ends_with("shard-2-of-4");
    };
    while (!stop.stop_requested() && files("step-000000000010").size() < 5) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (const std::string& name : files("shard-2")) {
      if (!is_newest(name)) continue;
      std::fstream shard(path_ + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
      shard.seekp(5000);
      shard.put('x');
    }
  });
  const Report report =
      run(request({"run.steps=20", checkpoints(5, 2),
                   "faults=[{at_step: 14, rank: 1, kill: true}]",
                   "policies=[{name: recover, parameters: {how: restart}}]"}));
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
  EXPECT_EQ(report.steps_completed(), 20u);
  EXPECT_EQ(report.steps_rolled_back(), 9u) << "from step 14 to step 5";
  ASSERT_GE(report.warnings_size(), 1);
  EXPECT_NE(report.warnings(0).find("shard-2-of-4 (shard of rank 2 of 4)"), std::string::npos)
      << report.warnings(0);
}

}  // namespace
}  // namespace orrery::live

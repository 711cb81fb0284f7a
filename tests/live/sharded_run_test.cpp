// Whole runs whose optimizer state is sharded (ZeRO-1): ranks die and come back, and the run ends
// with the bits of one in which every rank holds everything and nobody dies.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/run/files/run_files.hpp"
#include "policies/run/worker.hpp"
#include "tests/live/lighter.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::live {
namespace {

/// Four ranks, eight micro-batches of 20 ms a step.
RunRequest request(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = lighter({"job.global_batch=8", brisk_pace(), "faults=[]",
                                          "policies=[{name: static}]", "run.steps=60"});
  all.insert(all.end(), overrides.begin(), overrides.end());
  RunRequest out;
  *out.mutable_scenario() =
      load_scenario(ORRERY_SOURCE_DIR "/examples/straggler-4-ranks.yaml", all).scenario;
  out.set_mode("drive");
  out.set_fabric("grpc");
  return out;
}

Report run(const RunRequest& request) {
  return run_in_worker(ORRERY_BINARY_DIR "/bin/orrery-live", request);
}

const std::string kSharded = "job.layout.shard=optimizer";

/// Returns the parameters' hash of a run of 60 steps in which every rank holds everything.
const std::string& undisturbed() {
  static const std::string hash = run(request({})).parameters_sha256();
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
    expect_whole(run(request({kSharded, fmt::format("job.layout.data={}", ranks)})));
  }
}

TEST(ShardedRun, KillsOneAfterTheOtherLoseNothing) {
  std::string faults;
  for (int i = 0; i < 6; ++i) {  // A slow machine needs more time between two.
    faults += fmt::format("{{rank: {}, at_step: {}, kill: true}}, ", i * 3 % 4, 4 + 10 * i);
  }
  const Report report = run(request({kSharded, fmt::format("faults=[{}]", faults)}));
  expect_whole(report);
  EXPECT_GE(report.failures_size(), 3);
}

TEST(ShardedRun, AKillAsTheLastStepEndsLosesNothing) {
  for (const char* at : {"59", "58"}) {
    expect_whole(
        run(request({kSharded, fmt::format("faults=[{{rank: 2, at_step: {}, kill: true}}]", at)})));
  }
}

TEST(ShardedRun, TwoNeighboursAtOnceLoseNothing) {
  const Report report = run(request({kSharded,
                                     "faults=[{rank: 1, at_step: 5, kill: true}, "
                                     "{rank: 2, at_step: 5, kill: true}]"}));
  expect_whole(report);
  EXPECT_EQ(report.failures_size(), 2);
}

/// Ranks 0 and 1 stand on one node, 2 and 3 on the other.
TEST(ShardedRun, AWholeNodeAtOnceLosesNothing) {
  const Report report = run(request(
      {kSharded, "cluster.nodes=2", "cluster.node.gpus_per_node=2", "cluster.node.nics_per_node=2",
       "faults=[{rank: 2, at_step: 5, kill: true}, {rank: 3, at_step: 5, kill: true}]"}));
  expect_whole(report);
  EXPECT_EQ(report.failures_size(), 2);
}

TEST(ShardedRun, OneLostWithTheKeeperOfItsCopyEndsTheRunWhichSaysSo) {
  const Report report = run(request({kSharded,
                                     "faults=[{rank: 0, at_step: 5, kill: true}, "
                                     "{rank: 2, at_step: 5, kill: true}]"}));
  EXPECT_LT(report.steps_completed(), 60u);
  EXPECT_NE(report.unfinished().find("the optimizer's state of parameters"), std::string::npos)
      << report.unfinished();
  EXPECT_NE(report.unfinished().find(kStateGone), std::string::npos) << report.unfinished();
}

TEST(ShardedRun, GoesOnFromItsCheckpointsWithAnyNumberOfRanks) {
  const std::string folder = testing::TempDir() + "orrery_sharded." + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  const Report first =
      run(request({kSharded, "run.steps=20",
                   fmt::format("live.checkpoints={{folder: {}, every: 10}}", folder)}));
  EXPECT_EQ(first.checkpoints_written(), 2u);
  for (const auto& [shard, ranks] : {std::pair("optimizer", 2), std::pair("nothing", 4)}) {
    RunRequest rest = request(
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

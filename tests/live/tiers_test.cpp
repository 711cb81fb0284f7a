// Checkpoints of all tiers over whole runs, live and simulated: the losses that each tier survives,
// and the same parameters as a run without losses.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/live/slots.hpp"

namespace orrery::live {
namespace {

/// One story: the job saves on disk before step 6 and to `tier` before step 11, and loses ranks at
/// step 20. A policy restarts it from the newest checkpoint on the GPUs `then`.
struct Story {
  Tier tier{};
  std::string faults;
  GpuRuns then;
  Step from = 0;  ///< step of the checkpoint with which the job must continue
};

constexpr Step kOnDisk = 6, kInTier = 11;

/// Four nodes of two GPUs. The job begins on the nodes 0 and 1.
std::vector<std::string> four_nodes(const std::string& folder) {
  return {"cluster.nodes=4",
          "cluster.node.gpus_per_node=2",
          "cluster.node.nics_per_node=2",
          "cluster.fabric.nodes_per_unit=4",
          "survival.restart=400 ms",
          fmt::format("live.checkpoints={{folder: {0}/disk, storage: {0}/storage, every: 1000}}",
                      folder)};
}

Watching saves_and_restarts(const Story& story) {
  Needs needs = kAssigns;
  return Watching(
      needs, [=, restarted = false](const Observation& seen, DecisionList& decisions) mutable {
        const auto* done = shown<StepsDone>(seen);
        if (done != nullptr && done->last + 2 == kOnDisk) {
          decisions.add(Save{{0}, Tier::local_disk}, "on disk");
        }
        if (done != nullptr && done->last + 2 == kInTier) {
          decisions.add(Save{{0}, story.tier}, "in the tier");
        }
        if (shown<RanksLost>(seen) == nullptr || std::exchange(restarted, true)) return;
        decisions.add(stand_on(story.then, StateFrom::checkpoint), "from the newest checkpoint");
      });
}

void expect_restart(const Story& story) {
  const std::string folder = ::testing::TempDir() + "orrery_tiers." + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  std::vector<std::string> all = four_nodes(folder);
  const Report calm = run_in_worker(kProgram, eight_slots(40, all));
  all.push_back(fmt::format("faults=[{}]", story.faults));
  const RunRequest asked = eight_slots(40, all);
  Watching live = saves_and_restarts(story), simulated = saves_and_restarts(story);
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  EXPECT_EQ(report.unfinished(), "");
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
  for (const Report* each : {&report, &modelled}) {
    EXPECT_EQ(each->steps_completed(), 40u);
    EXPECT_EQ(each->ranks_missing(), 0u);
    EXPECT_EQ(each->micro_batches_lost() + each->micro_batches_repeated(), 0u);
  }
  for (const Watching* each : {&live, &simulated}) {
    for (const Decided& outcome : each->all<Decided>()) {
      EXPECT_EQ(outcome.status, Outcome::applied) << outcome.reason;
    }
    const auto saved = each->all<SaveDone>();
    ASSERT_GE(saved.size(), 2u);
    EXPECT_EQ(saved[0].step, kOnDisk);
    EXPECT_TRUE(saved[0].holders.empty());
    EXPECT_EQ(saved[1].step, kInTier);
    EXPECT_EQ(saved[1].tier, story.tier);
    EXPECT_TRUE(saved[1].durable);
    EXPECT_EQ(saved[1].holders.size(), is_in_memory(story.tier) ? 4u : 0u);
    const auto started = each->all<JobStarted>();
    ASSERT_EQ(started.size(), 2u);
    EXPECT_EQ(started[1].from, story.from);
    EXPECT_EQ(started[1].where.gpus, story.then);
  }
  EXPECT_EQ(live.all<SaveDone>()[1].holders, simulated.all<SaveDone>()[1].holders);
  std::filesystem::remove_all(folder);
  expect_nothing_left();
}

constexpr const char* kAllRanks =
    "{at_step: 20, rank: 0, kill: true}, {at_step: 20, rank: 1, kill: true}, "
    "{at_step: 20, rank: 2, kill: true}, {at_step: 20, rank: 3, kill: true}";
constexpr const char* kNode = "{at_step: 20, node: 1, down: true}";
constexpr const char* kNodes =
    "{at_step: 20, node: 0, down: true}, {at_step: 20, node: 1, down: true}";

TEST(Tiers, MemorySurvivesTheLossOfARank) {
  expect_restart(
      {Tier::memory, "{at_step: 20, rank: 1, kill: true}", GpuRuns::range({0}, 4), kInTier});
}

TEST(Tiers, MemorySurvivesTheLossOfAllRanks) {
  expect_restart({Tier::memory, kAllRanks, GpuRuns::range({2}, 4), kInTier});
}

TEST(Tiers, MemoryIsLostWithANodeAndTheDiskIsNot) {
  expect_restart({Tier::memory, kNode, GpuRuns::range({4}, 4), kOnDisk});
}

TEST(Tiers, APeerSurvivesTheLossOfANode) {
  expect_restart({Tier::peer, kNode, GpuRuns::range({4}, 4), kInTier});
}

TEST(Tiers, StorageSurvivesTheLossOfAllNodes) {
  expect_restart({Tier::storage, kNodes, GpuRuns::range({4}, 4), kInTier});
}

TEST(Tiers, APeerIsLostWithBothNodes) {
  expect_restart({Tier::peer, kNodes, GpuRuns::range({4}, 4), kOnDisk});
}

}  // namespace
}  // namespace orrery::live

// Checkpoints of all tiers over whole runs, live and simulated: the losses that each tier survives,
// the return of a job that has left its GPUs, and the same parameters as a run without either.
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

/// One story: the job saves on disk before step 6 and to `tier` before step 11. Then it loses ranks
/// at step 20, or leaves its GPUs once the checkpoint in `tier` is complete. A policy starts the
/// job from the newest checkpoint on the GPUs `then`: after the loss, or after the job has left and
/// the faults, if any, have struck.
struct Story {
  Tier tier{};
  std::string faults;
  GpuRuns then;
  Step from = 0;  ///< step of the checkpoint with which the job must continue
  bool leaves = false;

  /// Returns true if the observation shows that the policy must start the job.
  bool is_due(const Observation& seen) const {
    if (!leaves) return shown<RanksLost>(seen) != nullptr;
    if (faults.empty()) return shown<JobStopped>(seen) != nullptr;
    return shown<PartChanged>(seen) != nullptr;
  }
};

constexpr int kSteps = 24;
constexpr Step kOnDisk = 6, kInTier = 11;

/// Four nodes of two GPUs. The job begins on the nodes 0 and 1.
std::vector<std::string> four_nodes(const std::string& folder) {
  return {"cluster.nodes=4",
          "cluster.node.gpus_per_node=2",
          "cluster.node.nics_per_node=2",
          "cluster.fabric.nodes_per_unit=4",
          "survival.restart=400 ms",
          fmt::format("checkpoints={{folder: {0}/disk, storage: {0}/storage, every: 1000}}",
                      folder)};
}

Watching saves_and_restarts(const Story& story) {
  return Watching(kAssigns, [=, left = false, restarted = false](const Observation& seen,
                                                                 DecisionList& decisions) mutable {
    const auto* done = shown<StepsDone>(seen);
    if (done != nullptr && done->last + 2 == kOnDisk) {
      decisions.add(Save{{0}, Tier::local_disk}, "on disk");
    }
    if (done != nullptr && done->last + 2 == kInTier) {
      decisions.add(Save{{0}, story.tier}, "in the tier");
    }
    const auto* saved = shown<SaveDone>(seen);
    const bool is_kept = saved != nullptr && saved->tier == story.tier;
    if (story.leaves && is_kept && !std::exchange(left, true)) {
      decisions.add(Assign{{0}}, "to make room");
    }
    if (!story.is_due(seen) || std::exchange(restarted, true)) return;
    decisions.add(stand_on(story.then, StateFrom::checkpoint), "from the newest checkpoint");
  });
}

/// Checks the events of a story in one world.
void expect_events(const Story& story, const Watching& policy) {
  for (const Decided& outcome : policy.all<Decided>()) {
    EXPECT_EQ(outcome.status, Outcome::applied) << outcome.reason;
  }
  const auto saved = policy.all<SaveDone>();
  ASSERT_GE(saved.size(), 2u);
  EXPECT_EQ(saved[0].step, kOnDisk);
  EXPECT_TRUE(saved[0].holders.empty());
  EXPECT_EQ(saved[1].step, kInTier);
  EXPECT_EQ(saved[1].tier, story.tier);
  EXPECT_TRUE(saved[1].durable);
  EXPECT_EQ(saved[1].holders.size(), is_in_memory(story.tier) ? 4u : 0u);
  const auto stopped = policy.all<JobStopped>();
  ASSERT_EQ(stopped.size(), story.leaves ? 1u : 0u);
  for (const JobStopped& each : stopped) EXPECT_EQ(each.kept, kInTier);
  EXPECT_EQ(policy.all<RanksLost>().empty(), story.leaves);
  const auto started = policy.all<JobStarted>();
  ASSERT_EQ(started.size(), 2u);
  EXPECT_EQ(started[1].from, story.from);
  EXPECT_EQ(started[1].where.gpus, story.then);
}

void expect_restart(const Story& story) {
  const std::string folder = ::testing::TempDir() + "orrery_tiers." + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  std::vector<std::string> all = four_nodes(folder);
  all.push_back(fmt::format("faults=[{}]", story.faults));
  const RunRequest asked = eight_slots(kSteps, all);
  Watching live = saves_and_restarts(story), simulated = saves_and_restarts(story);
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  EXPECT_EQ(report.unfinished(), "");
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(eight_slots(kSteps)));
  for (const Report* each : {&report, &modelled}) {
    EXPECT_EQ(each->steps_completed(), std::uint64_t{kSteps});
    EXPECT_EQ(each->ranks_missing(), 0u);
    EXPECT_EQ(each->micro_batches_lost() + each->micro_batches_repeated(), 0u);
  }
  expect_events(story, live);
  expect_events(story, simulated);
  const auto holders = [](const Watching& policy) { return policy.all<SaveDone>().at(1).holders; };
  EXPECT_EQ(holders(live), holders(simulated));
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

// ---- a job that leaves -----------------------------------------------------------------------

TEST(Tiers, AJobThatLeavesReturnsFromMemory) {
  expect_restart({Tier::memory, "", GpuRuns::range({4}, 4), kInTier, true});
}

TEST(Tiers, AJobThatLeavesReturnsFromPeers) {
  expect_restart({Tier::peer, "", GpuRuns::range({2}, 4), kInTier, true});
}

TEST(Tiers, AJobThatLeavesReturnsFromStorage) {
  expect_restart({Tier::storage, "", GpuRuns::range({4}, 4), kInTier, true});
}

TEST(Tiers, AJobReturnsFromTheDiskIfMemoryIsLostWithANodeWhileItIsAway) {
  // The job has left after some 13 steps of two micro-batches; the fault strikes long after.
  const std::string fault =
      fmt::format("{{at_time: {} ms, node: 1, down: true}}", 100 * kBriskPaceMs);
  expect_restart({Tier::memory, fault, GpuRuns::range({4}, 4), kOnDisk, true});
}

}  // namespace
}  // namespace orrery::live

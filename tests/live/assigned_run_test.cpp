// Decisions of policies about placement and settings, over whole runs of real ranks, and the same
// decisions in the simulator: nothing is lost or repeated, the parameters have the bits of the
// undisturbed run, and both worlds give the same answer to every decision.
#include <unistd.h>

#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/live/live_run.hpp"
#include "tests/live/watching.hpp"

namespace orrery::live {
namespace {

const std::string kSimulator = ORRERY_BINARY_DIR "/bin/orrery-sim";
const Needs kAssigns{.actions = Kinds<Action>::of<Assign>(), .settings = {}};

/// Four ranks, two micro-batches each, with these overrides.
RunRequest four_ranks(int steps, std::vector<std::string> more = {}) {
  more.insert(more.end(), {brisk_pace(), fmt::format("run.steps={}", steps)});
  return request(more);
}

Assign stand_on(std::initializer_list<std::uint32_t> gpus) {
  GpuRuns runs;
  for (const std::uint32_t gpu : gpus) runs.push_back({gpu});
  return {.job = {0},
          .gpus = std::move(runs),
          .layout = {.data = static_cast<std::uint32_t>(gpus.size())},
          .state = StateFrom::peer};
}

/// Every step done, no micro-batch lost or doubled, with the bits of the run that nobody disturbed.
void expect_whole(const Report& report, const Report& calm) {
  EXPECT_EQ(report.steps_completed(), calm.steps_completed());
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_EQ(report.micro_batches_repeated(), 0u);
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
}

std::vector<std::pair<Outcome, std::string>> outcomes(const Watching& policy) {
  std::vector<std::pair<Outcome, std::string>> found;
  for (const Decided& each : policy.all<Decided>()) found.emplace_back(each.status, each.reason);
  return found;
}

// ---- where it stands ----------------------------------------------------------------------

/// Policy that removes GPU 2 from step 6 on, and adds it again from step 12 on.
Watching without_one_for_a_while() {
  return Watching(kAssigns, [](const Observation& seen, DecisionList& decisions) {
    const auto* done = shown<StepsDone>(seen);
    if (done == nullptr) return;
    if (done->last == 3) decisions.add(stand_on({0, 1, 3}), "one fewer").at_step = 6;
    if (done->last == 9) decisions.add(stand_on({0, 1, 2, 3}), "all again").at_step = 12;
  });
}

TEST(AssignedRun, ShrinksAndGrowsBetweenStepsInBothWorldsAlike) {
  const RunRequest asked = four_ranks(60);
  const Report calm = run_in_worker(kProgram, asked);
  Watching live = without_one_for_a_while(), simulated = without_one_for_a_while();
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  expect_whole(report, calm);
  EXPECT_EQ(report.failures_size(), 0) << "nobody was lost";
  EXPECT_EQ(report.micro_batches_recomputed(), 0u) << "it leaves and joins between two steps";
  EXPECT_EQ(modelled.steps_completed(), 60u);
  EXPECT_EQ(report.decisions(), 2u);
  EXPECT_EQ(report.decision_trace_sha256(), modelled.decision_trace_sha256());
  for (const Watching* each : {&live, &simulated}) {
    const auto started = each->all<JobStarted>();
    ASSERT_EQ(started.size(), 3u);
    EXPECT_EQ(started[1].where.gpus.size(), 3u);
    EXPECT_EQ(started[1].from, 6u);
    EXPECT_EQ(started[2].where.gpus.size(), 4u);
    EXPECT_GE(started[2].from, 12u);
    EXPECT_LT(started[1].epoch, started[2].epoch);
    EXPECT_TRUE(each->all<RanksLost>().empty());
  }
  expect_nothing_left();
}

/// Policy that moves the job from three ranks to three others: one leaves, one joins, two stay.
Watching moves() {
  return Watching(kAssigns, [](const Observation& seen, DecisionList& decisions) {
    const auto* done = shown<StepsDone>(seen);
    if (done == nullptr) return;
    if (done->last == 3) decisions.add(stand_on({0, 1, 3}), "one fewer");
    if (done->last == 7) decisions.add(stand_on({1, 2, 3}), "another one");
  });
}

TEST(AssignedRun, SomeLeaveAndOthersJoinAtOnceInBothWorldsAlike) {
  const RunRequest asked = four_ranks(50);
  const Report calm = run_in_worker(kProgram, asked);
  Watching live = moves(), simulated = moves();
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  expect_whole(report, calm);
  EXPECT_EQ(modelled.steps_completed(), 50u);
  EXPECT_EQ(report.decision_trace_sha256(), modelled.decision_trace_sha256());
  for (const Watching* each : {&live, &simulated}) {
    const auto started = each->all<JobStarted>();
    ASSERT_EQ(started.size(), 3u);
    EXPECT_EQ(started[1].where.gpus, (GpuRuns{{0}, {1}, {3}}));
    EXPECT_EQ(started[2].where.gpus, (GpuRuns{{1}, {2}, {3}}));
    EXPECT_TRUE(each->all<RanksLost>().empty());
  }
  expect_nothing_left();
}

// ---- losses -------------------------------------------------------------------------------

TEST(AssignedRun, TwoKillsAtOneStepAreOneLossInBothWorlds) {
  const RunRequest asked = four_ranks(
      40, {"faults=[{at_step: 5, rank: 1, kill: true}, {at_step: 5, rank: 2, kill: true}]",
           "policies=[{name: recover}]"});
  const Report calm = run_in_worker(kProgram, four_ranks(40));
  Watching live(asked.scenario()), simulated(asked.scenario());
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  expect_whole(report, calm);
  EXPECT_EQ(report.failures_size(), 2);
  EXPECT_EQ(report.decision_trace_sha256(), modelled.decision_trace_sha256());
  for (const Watching* each : {&live, &simulated}) {
    const auto lost = each->all<RanksLost>();
    ASSERT_EQ(lost.size(), 1u);
    EXPECT_EQ(lost[0].ranks, (std::vector<RankId>{{1}, {2}}));
    EXPECT_EQ(each->all<Decided>().size(), 1u);
  }
  expect_nothing_left();
}

/// Decides beforehand that it stands without GPU 3 from step 8 on, but only as long as all are
/// there, and without GPU 2 from step 10 on.
Watching decides_beforehand() {
  return Watching(kAssigns, [](const Observation& seen, DecisionList& decisions) {
    const auto* done = shown<StepsDone>(seen);
    if (done == nullptr) return;
    if (done->last == 1) {
      Decision& fewer = decisions.add(stand_on({0, 1, 2}), "while all are there");
      fewer.at_step = 8;
      fewer.if_epoch = seen.jobs[{0}].epoch;
    }
    if (done->last == 2) decisions.add(stand_on({0, 1, 3}), "in any case").at_step = 10;
  });
}

TEST(AssignedRun, AnAssignmentThatWaitsOutlivesALossUnlessItSaysOtherwise) {
  const RunRequest asked = four_ranks(20, {"faults=[{at_step: 5, rank: 2, kill: true}]"});
  const Report calm = run_in_worker(kProgram, four_ranks(20));
  Watching live = decides_beforehand(), simulated = decides_beforehand();
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  expect_whole(report, calm);
  EXPECT_EQ(report.decision_trace_sha256(), modelled.decision_trace_sha256());
  for (const Watching* each : {&live, &simulated}) {
    EXPECT_EQ(outcomes(*each), (std::vector<std::pair<Outcome, std::string>>{
                                   {Outcome::expired, "membership has changed"},
                                   {Outcome::applied, ""}}));
    const auto started = each->all<JobStarted>();
    ASSERT_EQ(started.size(), 2u);
    EXPECT_EQ(started[1].where.gpus, (GpuRuns{{0}, {1}, {3}}));
    EXPECT_EQ(started[1].from, 10u);
  }
  expect_nothing_left();
}

/// Holds still after a loss; a third of a second later it is assigned where it stood.
Watching comes_late() {
  constexpr Nanos kLate = 300'000'000;
  return Watching(kAssigns,
                  [at = kNever](const Observation& seen, DecisionList& decisions) mutable {
                    if (shown<JobHeld>(seen) != nullptr) {
                      at = seen.now + kLate;
                      decisions.wake(at);
                    }
                    if (seen.now < at) return;
                    at = kNever;
                    decisions.add(stand_on({0, 1, 2, 3}), "somebody has looked at it");
                  });
}

TEST(AssignedRun, AJobThatHoldsWaitsUntilItIsAssigned) {
  const RunRequest asked = four_ranks(
      20, {"faults=[{at_step: 5, rank: 2, kill: true}]", "survival.on_loss=hold"});
  const Report calm = run_in_worker(kProgram, four_ranks(20));
  Watching live = comes_late(), simulated = comes_late();
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  expect_whole(report, calm);
  EXPECT_EQ(modelled.steps_completed(), 20u);
  EXPECT_EQ(report.decision_trace_sha256(), modelled.decision_trace_sha256());
  EXPECT_GE(report.elapsed_s(), 0.3 + 20 * 2e-3 * kBriskPaceMs);
  for (const Watching* each : {&live, &simulated}) {
    bool holds = false;
    for (const Event& event : each->events()) {
      if (std::holds_alternative<JobHeld>(event)) holds = true;
      if (std::holds_alternative<JobStarted>(event)) holds = false;
      EXPECT_FALSE(holds && std::holds_alternative<StepsDone>(event)) << "it stands still";
    }
    EXPECT_EQ(each->all<JobHeld>().size(), 1u);
    EXPECT_EQ(each->all<JobStarted>().size(), 2u);
  }
  expect_nothing_left();
}

TEST(AssignedRun, WhoIsSilentIsSuspectedBeforeItIsLost) {
  const RunRequest asked = four_ranks(
      12, {"faults=[{at_step: 4, rank: 2, stop: true}]", "policies=[{name: recover}]"});
  Watching policy(asked.scenario());
  run_in_worker(kProgram, asked, &policy);
  bool suspected = false, lost = false;
  for (const Event& event : policy.events()) {
    if (const auto* said = std::get_if<RanksSuspected>(&event); said && !lost) {
      suspected = suspected || said->ranks == std::vector<RankId>{{2}};
    }
    if (const auto* said = std::get_if<RanksLost>(&event)) {
      EXPECT_EQ(said->ranks, std::vector<RankId>{{2}});
      EXPECT_TRUE(suspected);
      lost = true;
    }
  }
  EXPECT_TRUE(lost);
}

// ---- rest ---------------------------------------------------------------------------------

/// Ticks that a policy got within each step, which rests or does not.
std::vector<int> ticks_by_step(const RunRequest& asked, bool rests) {
  Watching policy({.actions = {}, .settings = {}, .tick = 10'000'000},
                  [rests](const Observation&, DecisionList& decisions) {
                    if (rests) decisions.rest();
                  });
  run_in_worker(kProgram, asked, &policy);
  std::vector<int> ticks{0};
  for (const Event& event : policy.events()) {
    if (std::holds_alternative<Tick>(event)) ++ticks.back();
    if (std::holds_alternative<StepsDone>(event)) ticks.push_back(0);
  }
  return ticks;
}

TEST(AssignedRun, WhoRestsIsAskedWithinAStepOnlyIfThatLasts) {
  const RunRequest asked = request({"run.steps=6", "job.pace.micro_batch=100 ms",
                                    "faults=[{at_step: 5, rank: 2, slow: 6}]"});
  const std::vector<int> resting = ticks_by_step(asked, true), waking = ticks_by_step(asked, false);
  ASSERT_EQ(resting.size(), 7u);
  ASSERT_EQ(waking.size(), 7u);
  for (std::size_t step = 1; step < 5; ++step) {
    EXPECT_LT(resting[step], waking[step] / 2) << "step " << step;
  }
  EXPECT_GT(resting[5], 20) << "six times as long as those before";
}

// ---- how it is set ------------------------------------------------------------------------

/// Checks that both worlds refuse the decisions for the same reason.
void expect_refused_alike(const RunRequest& asked, const std::string& reason) {
  Watching live(asked.scenario()), simulated(asked.scenario());
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  ASSERT_FALSE(outcomes(live).empty());
  EXPECT_EQ(outcomes(live)[0], (std::pair{Outcome::rejected, reason}));
  EXPECT_EQ(outcomes(live), outcomes(simulated));
  EXPECT_EQ(report.decision_trace_sha256(), modelled.decision_trace_sha256());
}

TEST(AssignedRun, WhatTheRunsFabricRefusesItsRehearsalRefusesToo) {
  expect_refused_alike(
      four_ranks(4, {"policies=[{name: collective-table, parameters: {rules: [{kind: all-reduce, "
                     "algorithm: nvls}]}}]"}),
      "ranks on CPUs sum by ring, tree or halving-doubling");
  expect_refused_alike(
      four_ranks(8, {"job.layout.shard=optimizer", "live.reproducible=false",
                     "policies=[{name: fixed-codec, parameters: {rules: [{codec: bf16}]}}]"}),
      "sharded gradients cannot be compressed");
}

/// Policy that saves after step 2; from step 4 on a checkpoint follows every third step.
Watching saves() {
  return Watching({.actions = Kinds<Action>::of<Configure, Save>(),
                   .settings = Kinds<Setting>::of<CheckpointPlan>()},
                  [](const Observation& seen, DecisionList& decisions) {
                    const auto* done = shown<StepsDone>(seen);
                    if (done == nullptr) return;
                    if (done->last == 1) decisions.add(Save{{0}, Tier::local_disk}, "now");
                    if (done->last != 4) return;
                    const CheckpointPlan plan{.every_steps = 3, .tier = Tier::local_disk};
                    decisions.add(Configure{{0}, plan}, "every third step");
                  });
}

TEST(AssignedRun, CheckpointsAreMadeAsDecided) {
  const std::string folder = ::testing::TempDir() + "orrery_saves." + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  const RunRequest asked = four_ranks(
      13, {fmt::format("checkpoints={{folder: {}, every: 1000, keep: 9}}", folder)});
  Watching policy = saves();
  const Report report = run_in_worker(kProgram, asked, &policy);
  EXPECT_EQ(report.steps_completed(), 13u);
  for (const auto& [status, reason] : outcomes(policy)) {
    EXPECT_EQ(status, Outcome::applied) << reason;
  }
  std::vector<Step> saved;
  for (const SaveDone& each : policy.all<SaveDone>()) {
    EXPECT_TRUE(each.durable);
    EXPECT_EQ(each.tier, Tier::local_disk);
    EXPECT_GT(each.took, 0);
    saved.push_back(each.step);
  }
  EXPECT_EQ(saved, (std::vector<Step>{3, 6, 9, 12}));
  EXPECT_EQ(report.checkpoints_written(), 4u);
  std::filesystem::remove_all(folder);
  expect_nothing_left();
}

}  // namespace
}  // namespace orrery::live

// Slots: the job of a live run moves onto GPUs that had no rank, grows and shrinks, over whole runs
// of real ranks, and the same decisions in the simulator. The parameters have the bits of the
// undisturbed run.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/live/slots.hpp"

namespace orrery::live {
namespace {

/// Placement decided at the end of a step.
struct Placed {
  Step after;
  GpuRuns gpus;
};

Watching placed(std::vector<Placed> plan) {
  return Watching(kAssigns, [plan](const Observation& seen, DecisionList& decisions) {
    const auto* done = shown<StepsDone>(seen);
    if (done == nullptr) return;
    for (const Placed& each : plan) {
      if (each.after == done->last) decisions.add(stand_on(each.gpus), "as planned");
    }
  });
}

/// Sizes of the job's placements, in order.
std::vector<std::size_t> sizes(const Watching& policy) {
  std::vector<std::size_t> all;
  for (const JobStarted& each : policy.all<JobStarted>()) all.push_back(each.where.gpus.size());
  return all;
}

/// Runs the plan in both worlds. Checks that every decision is applied in both, that nothing is
/// lost, and that the parameters are those of the run with `asked` whose job stays in its place.
void expect_alike(const RunRequest& asked, const std::vector<Placed>& plan,
                  const std::vector<std::size_t>& expected) {
  const Report calm = run_in_worker(kProgram, asked);
  Watching live = placed(plan), simulated = placed(plan);
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  EXPECT_EQ(report.steps_completed(), calm.steps_completed());
  EXPECT_EQ(modelled.steps_completed(), calm.steps_completed());
  EXPECT_EQ(report.micro_batches_lost() + report.micro_batches_repeated(), 0u);
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
  EXPECT_EQ(report.failures_size(), 0);
  EXPECT_EQ(report.decision_trace_sha256(), modelled.decision_trace_sha256());
  for (const Watching* each : {&live, &simulated}) {
    for (const Decided& outcome : each->all<Decided>()) {
      EXPECT_EQ(outcome.status, Outcome::applied) << outcome.reason;
    }
    EXPECT_EQ(sizes(*each), expected);
    EXPECT_TRUE(each->all<RanksLost>().empty());
  }
  expect_nothing_left();
}

TEST(Slots, AJobGrowsFromFourToEightRanksAndShrinksAgain) {
  expect_alike(eight_slots(70), {{3, GpuRuns::range({0}, 8)}, {45, GpuRuns::range({0}, 4)}},
               {4, 8, 4});
}

/// Ranks sum in floating point, so that the bits depend on the number of ranks in each step.
TEST(Slots, AGrownJobHasTheBitsOfARestartOnAsManyRanksFromTheSameCheckpoint) {
  const std::filesystem::path folder = ::testing::TempDir() + fmt::format("grown.{}", getpid());
  const std::vector<std::string> more{
      "live.reproducible=false",
      fmt::format("live.checkpoints={{folder: {}, every: 1, keep: 1000}}", folder.string())};
  Watching grows = placed({{3, GpuRuns::range({0}, 8)}});
  const Report grown = run_in_worker(kProgram, eight_slots(60, more), &grows);
  const std::vector<JobStarted> starts = grows.all<JobStarted>();
  ASSERT_EQ(sizes(grows), (std::vector<std::size_t>{4, 8}));
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step-")) continue;
    if (std::stoull(name.substr(5)) > starts[1].from) std::filesystem::remove(entry.path());
  }
  std::vector<std::string> restarts = more;
  restarts.emplace_back("job.layout.data=8");
  RunRequest again = eight_slots(60, restarts);
  again.set_resume_from(folder.string());
  const Report restarted = run_in_worker(kProgram, again);
  EXPECT_EQ(restarted.steps_completed(), 60 - starts[1].from);
  EXPECT_EQ(restarted.parameters_sha256(), grown.parameters_sha256());
  std::filesystem::remove_all(folder);
  expect_nothing_left();
}

TEST(Slots, AJobMovesToOtherGpusAndBack) {
  expect_alike(eight_slots(70), {{3, GpuRuns{{0}, {1}, {5}, {6}}}, {35, GpuRuns::range({4}, 4)}},
               {4, 4, 4});
}

TEST(Slots, AShardedJobGrowsAndMoves) {
  expect_alike(eight_slots(70, {"job.layout.shard=optimizer"}),
               {{3, GpuRuns::range({1}, 6)}, {30, GpuRuns{{0}, {1}, {7}}}}, {4, 6, 3});
}

TEST(Slots, ARigidJobMovesButDoesNotGrow) {
  const RunRequest asked = eight_slots(30, {"elastic=false"});
  const std::vector<Placed> plan{{3, GpuRuns::range({0}, 8)}, {5, GpuRuns::range({2}, 4)}};
  Watching live = placed(plan), simulated = placed(plan);
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  EXPECT_EQ(report.decision_trace_sha256(), modelled.decision_trace_sha256());
  for (const Watching* each : {&live, &simulated}) {
    const auto outcomes = each->all<Decided>();
    ASSERT_EQ(outcomes.size(), 2u);
    EXPECT_EQ(outcomes[0].reason, "job 0 wants 1 to 4 GPUs, not 8");
    EXPECT_EQ(outcomes[1].status, Outcome::applied);
  }
  expect_nothing_left();
}

TEST(Slots, ALostRankIsReplacedByASpareInBothWorldsAlike) {
  const auto replaces = [] {
    return Watching(kAssigns, [](const Observation& seen, DecisionList& decisions) {
      if (shown<RanksLost>(seen) == nullptr) return;
      decisions.add(stand_on({{0}, {1}, {3}, {5}}), "a spare");
    });
  };
  const RunRequest asked = eight_slots(40, {"faults=[{at_step: 5, gpu: 2, down: true}]"});
  const Report calm = run_in_worker(kProgram, eight_slots(40));
  Watching live = replaces(), simulated = replaces();
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
  EXPECT_EQ(report.decision_trace_sha256(), modelled.decision_trace_sha256());
  EXPECT_EQ(report.ranks_missing(), 0u);
  for (const Watching* each : {&live, &simulated}) {
    EXPECT_EQ(sizes(*each), (std::vector<std::size_t>{4, 4}));
    EXPECT_EQ(each->all<JobStarted>().back().where.gpus, (GpuRuns{{0}, {1}, {3}, {5}}));
  }
  expect_nothing_left();
}

// ---- warm spares ----------------------------------------------------------------------------

/// Policy that moves rank 3 to GPU `to` after step 25, and notes the time in seconds from the
/// decision until the job started, and the process on the GPU at both instants: 0 without one.
struct Move {
  Watching policy(std::uint32_t to) {
    return Watching(kAssigns, [this, to](const Observation& seen, DecisionList& decisions) {
      if (decided >= 0 && started < 0 && shown<JobStarted>(seen) != nullptr) {
        started = seen.now;
        process_after = agent_on(to);
      }
      const auto* done = shown<StepsDone>(seen);
      if (done == nullptr || done->last != 25) return;
      decided = seen.now;
      process_before = agent_on(to);
      decisions.add(stand_on({{0}, {1}, {2}, {to}}), "elsewhere");
    });
  }
  double joined_s() const { return to_seconds(started - decided); }
  Nanos decided = -1, started = -1;
  pid_t process_before = 0, process_after = 0;
};

TEST(Slots, AMoveToAWarmSpareUsesTheProcessThatWaitsThere) {
  const RunRequest asked = eight_slots(50, {"survival.warm=2", "survival.replacement=400 ms"});
  const Report calm = run_in_worker(kProgram, asked);
  for (const bool warm : {true, false}) {
    Move move;
    Watching policy = move.policy(warm ? 4 : 7);
    const Report report = run_in_worker(kProgram, asked, &policy);
    EXPECT_EQ(report.steps_completed(), 50u);
    EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
    EXPECT_EQ(report.failures_size(), 0);
    ASSERT_GE(move.started, 0);
    EXPECT_NE(move.process_after, 0);
    EXPECT_EQ(move.process_before, warm ? move.process_after : 0);
  }
  expect_nothing_left();
}

TEST(Slots, ASimulatedMoveToAWarmSpareIsFasterThanToAColdOne) {
  const RunRequest asked = eight_slots(50, {"survival.warm=2", "survival.replacement=400 ms"});
  Move warm, cold;
  Watching to_warm = warm.policy(4), to_cold = cold.policy(7);
  for (Watching* policy : {&to_warm, &to_cold}) {
    EXPECT_EQ(run_in_worker(kSimulator, asked, policy).steps_completed(), 50u);
  }
  EXPECT_LT(warm.joined_s() + 0.3, cold.joined_s());
}

TEST(Slots, AWarmSpareThatDiesIsReplacedAndIsNoLoss) {
  const RunRequest asked = eight_slots(40, {"survival.warm=3"});
  std::jthread killer([](const std::stop_token& stop) {
    const auto all = [&stop] { return stop.stop_requested() || agents().size() == 7; };
    if (!eventually(all) || stop.stop_requested()) return;
    const std::vector<pid_t> before = agents();
    kill(*std::ranges::max_element(before), SIGKILL);  // the last one that was started
  });
  const Report report = run_in_worker(kProgram, asked);
  killer.request_stop();
  EXPECT_EQ(report.steps_completed(), 40u);
  EXPECT_EQ(report.failures_size(), 0);
  EXPECT_EQ(report.ranks_missing(), 0u);
  EXPECT_EQ(report.micro_batches_recomputed(), 0u) << "no rank has noticed it";
  expect_nothing_left();
}

TEST(Slots, AJobRestoresACheckpointOnWarmSpares) {
  const std::string folder = ::testing::TempDir() + "orrery_warm." + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  const RunRequest asked = eight_slots(
      30, {"survival.warm=4",
           fmt::format("live.checkpoints={{folder: {}, every: 4}}", folder)});
  const Report calm = run_in_worker(kProgram, eight_slots(30));
  Watching policy(kAssigns, [left = false](const Observation& seen,
                                           DecisionList& decisions) mutable {
    const auto* done = shown<StepsDone>(seen);
    if (done != nullptr && done->last == 13 && !std::exchange(left, true)) {
      decisions.add(Assign{{0}}, "leave");
      decisions.add(stand_on(GpuRuns::range({4}, 4), StateFrom::checkpoint), "elsewhere");
    }
  });
  const Report report = run_in_worker(kProgram, asked, &policy);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
  EXPECT_EQ(sizes(policy), (std::vector<std::size_t>{4, 4}));
  EXPECT_GE(policy.all<JobStarted>().back().from, 8u);
  expect_nothing_left();
}

}  // namespace
}  // namespace orrery::live

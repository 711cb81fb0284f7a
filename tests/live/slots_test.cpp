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

/// Placement decided at the end of the step `after` steps behind the job's newest start, at which
/// the ranks of the placement before have joined, however long that takes.
struct Placed {
  Step after;
  GpuRuns gpus;
};

Watching placed(std::vector<Placed> plan) {
  return Watching(kAssigns, [plan = std::move(plan), next = std::size_t{0}, from = Step{0},
                             moves = false](const Observation& seen,
                                            DecisionList& decisions) mutable {
    if (const auto* started = shown<JobStarted>(seen)) {
      from = started->from;
      moves = false;
    }
    const auto* decided = shown<Decided>(seen);
    if (decided != nullptr && decided->status != Outcome::applied) moves = false;
    const auto* done = shown<StepsDone>(seen);
    if (done == nullptr || moves || next == plan.size()) return;
    if (done->last < from + plan[next].after) return;
    moves = true;
    decisions.add(stand_on(plan[next++].gpus), "as planned");
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
  Watching live = placed(plan), simulated = placed(plan);
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  EXPECT_EQ(report.steps_completed(), asked.scenario().run().steps());
  EXPECT_EQ(modelled.steps_completed(), asked.scenario().run().steps());
  EXPECT_EQ(report.micro_batches_lost() + report.micro_batches_repeated(), 0u);
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(asked));
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
  expect_alike(eight_slots(50), {{3, GpuRuns::range({0}, 8)}, {2, GpuRuns::range({0}, 4)}},
               {4, 8, 4});
}

// ---- restarts on as many ranks ---------------------------------------------------------------

/// Removes the checkpoints of the steps after `newest`.
void remove_checkpoints_after(const std::filesystem::path& folder, Step newest) {
  std::vector<std::filesystem::path> later;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && std::stoull(name.substr(5)) > newest) {
      later.push_back(entry.path());
    }
  }
  for (const std::filesystem::path& each : later) std::filesystem::remove(each);
}

/// Ranks sum in floating point, so that the bits depend on the number of ranks in each step.
/// Restarts repeat the run from its last start backwards, each from the checkpoint of that start:
/// four ranks to the end, then eight ranks to the step at which the four began, and four again from
/// the checkpoint of these eight.
TEST(Slots, AJobThatGrowsAndShrinksHasTheBitsOfRestartsOnAsManyRanks) {
  constexpr Step kSteps = 60;
  const std::filesystem::path folder = ::testing::TempDir() + fmt::format("grown.{}", getpid());
  const auto with_ranks = [&](int ranks, Step steps, int every) {
    return eight_slots(static_cast<int>(steps),
                       {"live.reproducible=false", fmt::format("job.layout.data={}", ranks),
                        fmt::format("checkpoints={{folder: {}, every: {}, keep: 1000}}",
                                    folder.string(), every)});
  };
  Watching policy = placed({{3, GpuRuns::range({0}, 8)}, {5, GpuRuns::range({0}, 4)}});
  const Report grown = run_in_worker(kProgram, with_ranks(4, kSteps, 1), &policy);
  ASSERT_EQ(sizes(policy), (std::vector<std::size_t>{4, 8, 4}));
  const std::vector<JobStarted> starts = policy.all<JobStarted>();
  const auto restart = [&](int ranks, Step from, Step steps) {
    remove_checkpoints_after(folder, from);
    RunRequest again = with_ranks(ranks, steps, static_cast<int>(steps));
    if (ranks == 4) again = quick(again);  // eight would keep the machine busy
    again.set_resume_from(folder.string());
    const Report report = run_in_worker(kProgram, again);
    EXPECT_EQ(report.steps_completed(), steps - from);
    return report.parameters_sha256();
  };
  const Step up = starts[1].from, down = starts[2].from;
  EXPECT_EQ(restart(4, down, kSteps), grown.parameters_sha256()) << "after the way back";
  restart(8, up, down);
  EXPECT_EQ(restart(4, down, kSteps), grown.parameters_sha256()) << "after the way up";
  std::filesystem::remove_all(folder);
  expect_nothing_left();
}

TEST(Slots, AJobMovesToOtherGpusAndBack) {
  expect_alike(eight_slots(66), {{3, GpuRuns{{0}, {1}, {5}, {6}}}, {2, GpuRuns::range({4}, 4)}},
               {4, 4, 4});
}

TEST(Slots, AShardedJobGrowsAndMoves) {
  expect_alike(eight_slots(66, {"job.layout.shard=optimizer"}),
               {{3, GpuRuns::range({1}, 6)}, {2, GpuRuns{{0}, {1}, {7}}}}, {4, 6, 3});
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
  Watching live = replaces(), simulated = replaces();
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(eight_slots(40)));
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
  const std::string calm = calm_parameters(eight_slots(50));
  for (const bool warm : {true, false}) {
    Move move;
    Watching policy = move.policy(warm ? 4 : 7);
    const Report report = run_in_worker(kProgram, asked, &policy);
    EXPECT_EQ(report.steps_completed(), 50u);
    EXPECT_EQ(report.parameters_sha256(), calm);
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
           fmt::format("checkpoints={{folder: {}, every: 4}}", folder)});
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
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(eight_slots(30)));
  EXPECT_EQ(sizes(policy), (std::vector<std::size_t>{4, 4}));
  EXPECT_GE(policy.all<JobStarted>().back().from, 8u);
  expect_nothing_left();
}

}  // namespace
}  // namespace orrery::live

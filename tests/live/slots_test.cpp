// Slots: the job of a live run moves onto GPUs that had no rank, grows and shrinks, over whole runs
// of real ranks, and the same decisions in the simulator. The parameters have the bits of the
// undisturbed run.
#include <string>
#include <utility>
#include <vector>

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

}  // namespace
}  // namespace orrery::live

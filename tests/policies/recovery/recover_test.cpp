#include "policies/recovery/recover.hpp"

#include <gtest/gtest.h>

#include "policies/record/encoding.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

/// Returns the decisions on these events of a job of four ranks at step 7.
std::vector<Decision> decide(const char* how, const std::vector<Event>& events) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  JobSpec spec = toy::job();
  spec.least_gpus = 1;
  toy::run_on(world, spec);
  world.apply(StepsDone{{0}, 6, 7}, 0);
  for (const Event& event : events) world.apply(event, 5);
  RecoverPolicy policy;
  RecoverParameters parameters;
  parameters.set_how(how);
  Rng rng(1);
  Context context{rng, {}};
  policy.start(context, cluster, &parameters);
  DecisionList decisions;
  NoSamples samples;
  policy.observe(context, toy::seen_of(world, events, samples, 5), decisions);
  EXPECT_TRUE(decisions.is_resting());
  for (const Decision& decision : decisions.items()) EXPECT_EQ(world.objection(decision), "");
  return decisions.items();
}

std::string line(const std::vector<Decision>& decisions) {
  EXPECT_EQ(decisions.size(), 1u);
  return decisions.empty() ? "" : trace_line(decisions[0]);
}

TEST(Recover, ReplacesWhereTheyStandOrGoesOnWithTheWholeReplicas) {
  EXPECT_EQ(line(decide("replace", {RanksLost{{0}, {{2}}, {2}}})),
            "Assign{job 0: gpus 0-3 layout tensor 1 context 1 pipeline 1 data 4 state peer, "
            "step 0}");
  EXPECT_EQ(line(decide("shrink", {RanksLost{{0}, {{1}}, {2}}, RanksLost{{0}, {{3}}, {3}}})),
            "Assign{job 0: gpus 0 2 layout tensor 1 context 1 pipeline 1 data 2 state peer, "
            "step 0}");
}

TEST(Recover, ACorruptedStateComesFromACheckpointWhateverTheRule) {
  const SaveDone saved{.job = {0}, .step = 6, .tier = Tier::local_disk};
  for (const char* how : {"replace", "restart"}) {
    EXPECT_EQ(line(decide(how, {saved, RanksLost{{0}, {{2}}, {2}, Step{3}}})),
              "Assign{job 0: gpus 0-3 layout tensor 1 context 1 pipeline 1 data 4 state "
              "checkpoint, step 0}");
    EXPECT_EQ(line(decide(how, {saved, RanksLost{{0}, {{2}}, {2}, Step{0}}})),
              "Assign{job 0: gpus 0-3 layout tensor 1 context 1 pipeline 1 data 4, "
              "step 0}")
        << "no checkpoint is intact";
  }
  EXPECT_EQ(line(decide("shrink", {saved, RanksLost{{0}, {{2}}, {2}, Step{3}}})),
            "Assign{job 0: gpus 0-1 3 layout tensor 1 context 1 pipeline 1 data 3 state "
            "checkpoint, step 0}");
}

TEST(Recover, DecidesOnceALossAndNothingWithoutOne) {
  EXPECT_TRUE(decide("replace", {Tick{}}).empty());
  const Standing again = toy::standing(0, 4);
  EXPECT_TRUE(decide("replace", {RanksLost{{0}, {{2}}, {2}}, JobStarted{{0}, {3}, 7, again}})
                  .empty());
}

TEST(Recover, AllRestartFromTheNewestCheckpointIfNobodyIsLeftWhateverTheRule) {
  const SaveDone saved{.job = {0}, .step = 6, .tier = Tier::local_disk};
  const RanksLost all{{0}, {{0}, {1}, {2}, {3}}, {2}};
  for (const char* how : {"replace", "shrink", "restart"}) {
    EXPECT_EQ(line(decide(how, {saved, all})),
              "Assign{job 0: gpus 0-3 layout tensor 1 context 1 pipeline 1 data 4 state "
              "checkpoint, step 0}")
        << how;
    const PartChanged gone{{PartKind::gpu, 1}, {.health = Health::lost}};
    EXPECT_TRUE(decide(how, {saved, gone, all}).empty()) << how << " waits for hardware";
  }
}

}  // namespace
}  // namespace orrery

// Batch, delay, checkpoints and void assignments of a job in World; world_test.cpp covers the other
// actions.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "policies/seam/world.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

using List = std::vector<std::uint32_t>;

/// World of 16 GPUs with a job of 40 micro-batches on four of them; a replica holds 20.
class WorldBatch : public ::testing::Test {
 protected:
  void run() {
    JobSpec spec = toy::job(0);
    spec.least_gpus = 1;
    spec.most_gpus = 8;
    toy::run_on(world_, std::move(spec), 0);
  }
  void apply(const Event& event) {
    ASSERT_EQ(world_.objection(event), "");
    world_.apply(event, 0);
  }
  const JobInfo& job() const { return world_.jobs()[{0}]; }
  std::string objection(Action what, Step at_step = 0) const {
    return world_.objection({.what = std::move(what), .at_step = at_step});
  }
  void decide(Action what, Step at_step = 0) {
    const Decision decision{.id = next_++, .what = std::move(what), .at_step = at_step};
    ASSERT_EQ(world_.objection(decision), "");
    world_.announce_decision(decision);
    apply(Decided{decision.id, Outcome::applied, ""});
  }
  void start() { apply(toy::started(world_, 0, Standing(*job().next), 0)); }
  void lose(std::vector<RankId> ranks) {
    apply(RanksLost{{0}, std::move(ranks), {job().epoch.value + 1}});
  }

  const Cluster cluster_ = toy::cluster(4, 4);
  World world_{cluster_};
  DecisionId next_ = 0;
};

TEST_F(WorldBatch, AReplacementIsVoidOnceOneOfItsGpusIsLost) {
  run();
  decide(Configure{{0}, OnLoss{LossResponse::replace}});
  lose({{1}});
  apply(PartChanged{{PartKind::gpu, 2}, {.health = Health::lost}});
  EXPECT_TRUE(job().next) << "the rank on the other GPU still works";
  lose({{2}});
  EXPECT_FALSE(job().next);
  apply(PartChanged{{PartKind::gpu, 2}, {.health = Health::ok}});
  lose({{3}});
  ASSERT_TRUE(job().next);
  apply(PartChanged{{PartKind::gpu, 1}, {.health = Health::lost}});
  EXPECT_FALSE(job().next) << "the process that starts there is lost";
  EXPECT_EQ(job().phase, JobPhase::running);
  EXPECT_EQ(objection(toy::assign(0, 0, 1)), "1 replicas have memory for 20 micro-batches, not 40");
}

TEST_F(WorldBatch, AMoveIsVoidOnceItsGpuIsLostAndTheOthersAreFreeAgain) {
  run();
  decide(toy::assign(0, 2, 4, StateFrom::peer));
  EXPECT_EQ(world_.state().owner[4], JobId{0});
  apply(PartChanged{{PartKind::gpu, 5}, {.health = Health::lost}});
  EXPECT_FALSE(job().next);
  EXPECT_EQ(world_.state().owner[4], ClusterState::kNobody);
  EXPECT_EQ(world_.state().owner[3], JobId{0});
  EXPECT_EQ(job().phase, JobPhase::running);
}

/// Two replicas of two stages; a replica holds 20 micro-batches.
class WorldLayout : public WorldBatch {
 protected:
  void run_in_pipelines(bool can_change_layout) {
    JobSpec spec = toy::job(0);
    spec.least_gpus = 1;
    spec.most_gpus = 8;
    spec.layout = {.pipeline = 2, .data = 2};
    spec.can_change_layout = can_change_layout;
    toy::run_on(world_, std::move(spec), 0);
  }
};

TEST_F(WorldLayout, LiveRunsKeepTheirPipelineDepth) {
  run_in_pipelines(false);
  EXPECT_EQ(objection(Assign{{0}, toy::gpus(0, 4), {.pipeline = 4}, StateFrom::peer}),
            "job 0: expected replicas of 1 x 1 x 2 ranks (tensor, context, pipeline), found 1 x 1 "
            "x 4: live runs keep their pipeline depth, and so does the simulation of a job that "
            "can run live");
}

TEST_F(WorldLayout, AJobWhoseStepFollowsFromItsModelGetsAnotherLayout) {
  run_in_pipelines(true);
  const auto layout = [this](std::uint32_t gpus, ParallelLayout to) {
    return objection(Assign{{0}, toy::gpus(0, gpus), to, StateFrom::peer});
  };
  EXPECT_EQ(layout(4, job().layout), "job 0 is placed there already");
  EXPECT_EQ(layout(4, {.pipeline = 4}), "");
  EXPECT_EQ(layout(4, {.tensor = 2, .data = 2}), "");
  EXPECT_EQ(layout(3, {.pipeline = 3}), "1 replicas have memory for 30 micro-batches, not 40")
      << "twenty for the two GPUs of a replica";
  EXPECT_EQ(layout(4, {.pipeline = 3}),
            "job 0 has a layout of 1 x 1 x 3 x 1 (tensor, context, pipeline, data) and needs 3 "
            "GPUs, not 4");
  EXPECT_EQ(layout(4, {.pipeline = 4, .pipeline_last = true}),
            "job 0 keeps the order of its ranks: expected a layout with pipeline_last false, found "
            "true");
  decide(Assign{{0}, toy::gpus(0, 4), {.pipeline = 1, .data = 4}, StateFrom::peer});
  EXPECT_EQ(job().shares(), (List{20, 20})) << "until the job has started";
  start();
  EXPECT_EQ(job().layout, (ParallelLayout{.data = 4}));
  EXPECT_EQ(job().shares(), (List{10, 10, 10, 10}));
  EXPECT_EQ(objection(Configure{{0}, Shares{{11, 9, 10, 10}}}),
            "replica 0 has memory for 10 micro-batches, not 11");
  lose({{1}});
  EXPECT_EQ(without_lost(job()).layout, (ParallelLayout{.data = 3}));
  EXPECT_FALSE(can_go_on(job())) << "three GPUs hold thirty micro-batches";
}

/// Shares for step 2 and a Batch without a step, on which the ranks agree at step 2 only.
class LateBatch : public WorldBatch {
 protected:
  void decide_both(Batch batch, List shares) {
    run();
    announce(0, Configure{{0}, batch}, 0);
    announce(1, Configure{{0}, Shares{std::move(shares)}}, 2);
    apply(Decided{1, Outcome::applied, ""});
    apply(StepsDone{{0}, 1, 2, 1});
    next_ = 2;
  }
  void announce(DecisionId id, Action what, Step at_step) {
    const Decision decision{.id = id, .what = std::move(what), .at_step = at_step};
    ASSERT_EQ(world_.objection(decision), "");
    world_.announce_decision(decision);
  }
};

TEST_F(LateBatch, SharesForTheBatchCountOnceTheBatchIsInEffect) {
  decide_both({60, 1}, {20, 20, 10, 10});
  EXPECT_EQ(job().shares(), (List{10, 10, 10, 10})) << "the batch of 40";
  apply(Decided{0, Outcome::applied, ""});
  EXPECT_EQ(job().shares(), (List{20, 20, 10, 10}));
}

TEST_F(LateBatch, SharesCountBesideANewRateToo) {
  decide_both({40, 2}, {13, 13, 1, 13});
  EXPECT_EQ(job().shares(), (List{13, 13, 1, 13}));
  apply(Decided{0, Outcome::applied, ""});
  EXPECT_EQ(job().now.get<Batch>().learning_rate_factor, 2);
  EXPECT_EQ(job().shares(), (List{13, 13, 1, 13})) << "of a later step than the batch";
}

TEST_F(LateBatch, SharesOfABatchThatIsRefusedAreDropped) {
  decide_both({60, 1}, {20, 20, 10, 10});
  apply(Decided{0, Outcome::expired, "membership has changed"});
  decide(Configure{{0}, Batch{60, 1}});
  EXPECT_EQ(job().shares(), (List{15, 15, 15, 15})) << "another batch, divided evenly";
}

TEST_F(LateBatch, SharesAreDroppedWithALoss) {
  decide_both({60, 1}, {20, 20, 10, 10});
  lose({{1}});
  apply(Decided{0, Outcome::applied, ""});
  EXPECT_EQ(job().shares(), (List{20, 0, 20, 20}));
}

TEST_F(WorldBatch, SharesThatALaterBatchHasDividedAnewAreNoObjection) {
  run();
  const Decision shares{.id = next_++, .what = Configure{{0}, Shares{{13, 13, 1, 13}}}};
  world_.announce_decision(shares);
  decide(Configure{{0}, Batch{60, 1}}, 2);
  apply(StepsDone{{0}, 1, 2, 1});
  EXPECT_EQ(world_.objection(shares), "") << "the ranks have agreed late";
  apply(Decided{shares.id, Outcome::applied, ""});
  EXPECT_EQ(job().shares(), (List{15, 15, 15, 15}));
  EXPECT_EQ(objection(Configure{{0}, Shares{{13, 13, 1, 13}}}),
            "the step has 60 micro-batches, not 40");
}

TEST_F(WorldBatch, ABatchDividesItsMicroBatchesAmongTheReplicas) {
  run();
  EXPECT_EQ(job().micro_batches(), 40u);
  decide(Configure{{0}, Batch{60, 1.5}}, 2);
  EXPECT_EQ(job().shares(), (List{10, 10, 10, 10})) << "from step 2 on";
  apply(StepsDone{{0}, 1, 2, 1});
  EXPECT_EQ(job().shares(), (List{15, 15, 15, 15}));
  EXPECT_EQ(job().micro_batches(), 60u);
  EXPECT_EQ(job().now.get<Batch>().learning_rate_factor, 1.5);
  lose({{1}});
  decide(Configure{{0}, Batch{30}});
  EXPECT_EQ(job().shares(), (List{10, 0, 10, 10})) << "a lost replica has none";
}

TEST_F(WorldBatch, SharesAreThoseOfTheBatchOfTheirStep) {
  run();
  const Shares later{{20, 20, 10, 10}};
  EXPECT_EQ(objection(Configure{{0}, later}, 5), "the step has 40 micro-batches, not 60");
  decide(Configure{{0}, Batch{60}}, 5);
  EXPECT_EQ(objection(Configure{{0}, later}, 4), "the step has 40 micro-batches, not 60");
  decide(Configure{{0}, later}, 5);
  apply(StepsDone{{0}, 4, 5, 1});
  EXPECT_EQ(job().shares(), later.per_replica);
}

TEST_F(WorldBatch, SharesOfAnotherBatchAreDropped) {
  run();
  decide(Configure{{0}, Shares{{20, 20, 0, 0}}}, 5);
  decide(Configure{{0}, Batch{44}}, 4);
  apply(StepsDone{{0}, 4, 5, 1});
  EXPECT_EQ(job().shares(), (List{11, 11, 11, 11}));
}

TEST_F(WorldBatch, ABatchThatNoLongerFitsAfterALossIsDropped) {
  run();
  decide(Configure{{0}, Batch{80}}, 5);
  lose({{1}});
  apply(StepsDone{{0}, 4, 5, 1});
  EXPECT_EQ(job().micro_batches(), 40u) << "three replicas hold 60";
}

TEST_F(WorldBatch, ImpossibleBatchesAndDelaysAreRefused) {
  run();
  const auto batch = [&](std::uint32_t count, double factor) {
    return objection(Configure{{0}, Batch{count, factor}});
  };
  EXPECT_EQ(batch(4, 1), "");
  EXPECT_EQ(batch(0, 1), "expected 1 micro-batch or more in a step, found 0");
  EXPECT_EQ(batch(3, 1), "4 replicas need a micro-batch each, found a batch of 3");
  EXPECT_EQ(batch(81, 1), "4 replicas have memory for 80 micro-batches, not 81");
  for (const double factor : {0.0, -1.0, 1001.0, std::nan("")}) EXPECT_NE(batch(40, factor), "");
  const auto delay = [&](double by) { return objection(Configure{{0}, Delay{by}}); };
  EXPECT_EQ(delay(0), "");
  EXPECT_EQ(delay(kMostDelay), "");
  EXPECT_EQ(delay(3601), "expected a delay of 0 s to 3600 s, found 3601 s");
  for (const double by : {-0.1, std::nan(""), HUGE_VAL}) EXPECT_NE(delay(by), "");
}

TEST_F(WorldBatch, ACorruptedStateComesFromAnIntactCheckpointOnly) {
  run();
  apply(StepsDone{{0}, 9, 10, 1});
  apply(SaveDone{.job = {0}, .step = 8, .tier = Tier::storage});
  EXPECT_NE(world_.objection(RanksLost{{0}, {{1}}, {2}, Step{11}}), "") << "a step to come";
  world_.apply(RanksLost{{0}, {{1}}, {2}, Step{4}}, 60);
  EXPECT_TRUE(job().is_corrupted);
  EXPECT_EQ(job().saved, 4u) << "that of step 8 is corrupted";
  EXPECT_EQ(job().saved_at, 60);
  const auto assign = [&](StateFrom state) {
    return objection(Assign{{0}, job().gpus, job().layout, state});
  };
  EXPECT_EQ(assign(StateFrom::peer),
            "the state of job 0 is corrupted: expected the state of a checkpoint, or none, found "
            "that of a peer");
  EXPECT_EQ(assign(StateFrom::checkpoint), "");
  const Standing where{job().gpus, job().layout};
  apply(JobStarted{.job = {0}, .epoch = {3}, .from = 4, .where = where});
  EXPECT_FALSE(job().is_corrupted);
  EXPECT_EQ(job().saved, 4u);
  apply(RanksLost{{0}, {{1}}, {4}, Step{0}});
  EXPECT_EQ(job().saved_at, 0) << "none is intact";
}

TEST_F(WorldBatch, ALimitOfPowerHoldsAtOnceAndStays) {
  run();
  const auto cap = [&](double watts) { return objection(Configure{{0}, PowerCap{watts}}); };
  EXPECT_EQ(cap(0), "");
  EXPECT_EQ(cap(490), "");
  for (const double watts : {-1.0, 2e5, std::nan("")}) EXPECT_NE(cap(watts), "");
  decide(Configure{{0}, PowerCap{490}});
  EXPECT_EQ(job().now.get<PowerCap>().watts, 490);
  apply(StepsDone{{0}, 0, 1, 1});
  EXPECT_EQ(job().now.get<PowerCap>().watts, 490);
}

TEST_F(WorldBatch, ReadersAreWithinTheLimitsOfTheJob) {
  run();
  const auto readers = [&](std::uint32_t workers, std::uint32_t depth) {
    return objection(Configure{{0}, Prefetch{workers, depth}});
  };
  EXPECT_EQ(readers(1, 1), "");
  EXPECT_EQ(readers(kMostWorkers, kMostPrefetch), "");
  EXPECT_NE(readers(0, 2).find("reading processes"), std::string::npos);
  EXPECT_NE(readers(2, 0).find("micro-batches read ahead"), std::string::npos);
  EXPECT_NE(readers(kMostWorkers + 1, 2), "");
  EXPECT_NE(readers(2, kMostPrefetch + 1), "");
  decide(Configure{{0}, Prefetch{4, 8}});
  EXPECT_EQ(job().now.get<Prefetch>(), (Prefetch{4, 8}));
}

TEST_F(WorldBatch, ADelayIsThatOfOneStep) {
  run();
  decide(Configure{{0}, Delay{0.5}}, 3);
  apply(StepsDone{{0}, 2, 3, 1});
  EXPECT_EQ(job().now.get<Delay>().seconds, 0.5);
  apply(StepsDone{{0}, 3, 1, 1});
  EXPECT_EQ(job().now.get<Delay>().seconds, 0);
}

TEST_F(WorldBatch, ABatchStartsWithTheAssignmentOfItsCall) {
  run();
  const Decision grow{.id = 0,
                      .what = Assign{{0}, GpuRuns::range({0}, 8), {.data = 8}, StateFrom::peer}};
  const Decision batch{.id = 1, .what = Configure{{0}, Batch{120, 2}}};
  world_.announce_decision(grow);
  world_.announce_decision(batch);
  apply(Decided{0, Outcome::applied, ""});
  EXPECT_EQ(world_.objection(batch), "");
  apply(Decided{1, Outcome::applied, ""});
  EXPECT_EQ(job().micro_batches(), 40u);
  start();
  EXPECT_EQ(job().shares(), List(8, 15));
  EXPECT_EQ(objection(Assign{{0}, GpuRuns::range({0}, 4), {.data = 4}, StateFrom::peer}),
            "4 replicas have memory for 80 micro-batches, not 120");
}

/// The ranks have agreed on the earlier decision only at the step of the later one.
TEST_F(WorldBatch, TheValueOfTheLaterStepCountsHoweverLateTheOtherIsApplied) {
  run();
  const Decision at_once{.id = 0, .what = Configure{{0}, Batch{60}}};
  const Decision ahead{.id = 1, .what = Configure{{0}, Batch{48}}, .at_step = 3};
  for (const Decision& each : {at_once, ahead}) world_.announce_decision(each);
  apply(Decided{1, Outcome::applied, ""});
  apply(StepsDone{{0}, 2, 3, 1});
  EXPECT_EQ(job().micro_batches(), 48u);
  apply(Decided{0, Outcome::applied, ""});
  EXPECT_EQ(job().micro_batches(), 48u);
  next_ = 2;
  decide(Configure{{0}, Batch{44}});
  EXPECT_EQ(job().micro_batches(), 44u) << "of one step the later decision";
}

TEST_F(WorldBatch, AnAssignmentThatWaitsMustBeAbleToHoldABatch) {
  run();
  const Decision shrink{.id = 0,
                        .what = Assign{{0}, GpuRuns::range({0}, 2), {.data = 2}, StateFrom::peer},
                        .at_step = 5};
  world_.announce_decision(shrink);
  const Decision batch{.id = 1, .what = Configure{{0}, Batch{41}}, .at_step = 6};
  EXPECT_EQ(world_.objection(batch), "2 replicas have memory for 40 micro-batches, not 41");
}

TEST_F(WorldBatch, ReplicasThatCannotHoldTheBatchStartWithThatOfTheSubmission) {
  run();
  decide(Configure{{0}, Batch{80, 1.5}});
  ASSERT_EQ(job().micro_batches(), 80u);
  apply(toy::started(world_, 0, Standing{GpuRuns::range({0}, 3), {.data = 3}}, 1));
  EXPECT_EQ(job().micro_batches(), 40u);
  EXPECT_EQ(job().now.get<Batch>().learning_rate_factor, 1);
  EXPECT_EQ(job().shares(), (List{14, 13, 13}));
}

TEST_F(WorldBatch, TheDurationOfAStartDoesNotDecideWhichBatchCounts) {
  for (const Step from : {Step{2}, Step{4}}) {
    World world{cluster_};
    JobSpec spec = toy::job(0);
    spec.most_gpus = 8;
    toy::run_on(world, std::move(spec), 0);
    world.apply(StepsDone{{0}, 1, 2, 1}, 0);
    const Decision ahead{.id = 0, .what = Configure{{0}, Batch{48}}, .at_step = 3};
    world.announce_decision(ahead);
    world.apply(Decided{0, Outcome::applied, ""}, 0);
    world.begin_batch();
    world.announce_decision(
        {.id = 1, .what = Assign{{0}, GpuRuns::range({0}, 8), {.data = 8}, StateFrom::peer}});
    world.announce_decision({.id = 2, .what = Configure{{0}, Batch{120}}});
    for (const DecisionId id : {1, 2}) world.apply(Decided{id, Outcome::applied, ""}, 0);
    if (from > 2) world.apply(StepsDone{{0}, from - 1, from - 2, 1}, 0);
    world.apply(toy::started(world, 0, Standing(*world.jobs()[{0}].next), from), 0);
    if (from < 4) world.apply(StepsDone{{0}, 3, 4 - from, 1}, 0);
    EXPECT_EQ(world.jobs()[{0}].micro_batches(), 48u) << from;
  }
}

TEST_F(WorldBatch, AfterARestartDecisionsOfRepeatedStepsCount) {
  run();
  decide(Configure{{0}, Batch{60}}, 9);
  apply(StepsDone{{0}, 9, 10, 1});
  world_.apply(SaveDone{{0}, 5, Tier::local_disk, 0, 1, true}, 1);
  decide(Assign{{0}, GpuRuns::range({0}, 4), {.data = 4}, StateFrom::checkpoint});
  apply(JobHeld{{0}});
  apply(toy::started(world_, 0, Standing(*job().next), 5));
  EXPECT_EQ(job().micro_batches(), 60u) << "a restart in place keeps the settings";
  decide(Configure{{0}, Batch{44}});
  EXPECT_EQ(job().micro_batches(), 44u) << "step 5 is before step 9";
}

TEST_F(WorldBatch, CopiesInMemoryAreLostWithTheirNodes) {
  run();
  apply(StepsDone{{0}, 9, 10, 1});
  world_.apply(SaveDone{.job = {0}, .step = 4, .tier = Tier::local_disk}, 50);
  SaveDone peer{.job = {0}, .step = 6, .tier = Tier::peer};
  peer.holders = {{{0}, {1}}, {{1}, {0}}};
  world_.apply(peer, 60);
  SaveDone memory{.job = {0}, .step = 8, .tier = Tier::memory};
  memory.holders = {{{0}, {0}}, {{1}, {1}}};
  world_.apply(memory, 80);
  EXPECT_EQ(job().saved, 8u);
  world_.apply(PartChanged{{PartKind::node, 1}, {.health = Health::lost, .rate = 0}}, 90);
  EXPECT_EQ(job().saved, 6u);
  EXPECT_EQ(job().saved_at, 60);
  world_.apply(PartChanged{{PartKind::node, 1}, {}}, 95);
  EXPECT_EQ(job().saved, 6u) << "memory does not come back with its node";
  world_.apply(PartChanged{{PartKind::node, 0}, {.health = Health::lost, .rate = 0}}, 100);
  EXPECT_EQ(job().saved, 4u);
  memory.step = 9;
  world_.apply(memory, 110);
  EXPECT_EQ(job().saved, 4u) << "a holder is lost already";
  memory.holders[0] = {{40'000}, {40'000}};
  EXPECT_NE(world_.objection(Event(memory)), "");
}

}  // namespace
}  // namespace orrery

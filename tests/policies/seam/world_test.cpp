#include "policies/seam/world.hpp"

#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

using List = std::vector<std::uint32_t>;

/// A world of 16 GPUs in four nodes, and job 0 on the first four of them if it is asked for.
class WorldTest : public ::testing::Test {
 protected:
  static JobSpec elastic(std::uint32_t id = 0) {
    JobSpec spec = toy::job(id);
    spec.least_gpus = 1;
    spec.most_gpus = 8;
    return spec;
  }
  void run(JobSpec spec = elastic(), std::uint32_t first = 0) {
    toy::run_on(world_, std::move(spec), first);
  }
  void submit(JobSpec spec) { apply(JobSubmitted{std::move(spec)}); }
  void apply(const Event& event, Nanos now = 0) {
    ASSERT_EQ(world_.objection(event), "");
    world_.apply(event, now);
  }
  const JobInfo& job(std::uint32_t id = 0) const { return world_.jobs()[{id}]; }
  std::string objection(Action what, Step at_step = 0) const {
    return world_.objection({.what = std::move(what), .at_step = at_step});
  }
  /// Announced, and reported as applied.
  void decide(Action what, Step at_step = 0) {
    const Decision decision{.id = next_++, .what = std::move(what), .at_step = at_step};
    ASSERT_EQ(world_.objection(decision), "");
    world_.announce_decision(decision);
    apply(Decided{decision.id, Outcome::applied, ""});
  }
  /// Its assignment comes true.
  void start(std::uint32_t id = 0, Step from = 0) {
    ASSERT_TRUE(job(id).next);
    apply(toy::started(world_, id, Standing(*job(id).next), from));
  }
  void lose(std::vector<RankId> ranks) {
    apply(RanksLost{{0}, std::move(ranks), {job().epoch.value + 1}});
  }
  void part(PartKind kind, std::uint32_t index, Health health) {
    apply(PartChanged{{kind, index}, {.health = health}}, 3);
  }

  const Cluster cluster_ = toy::cluster(4, 4);
  World world_{cluster_};
  DecisionId next_ = 0;
};

// ---- who has which GPU --------------------------------------------------------------------

RC_GTEST_PROP(WorldGpus, BitsAndCountsSayWhatOwnersAndHealthSay, (std::uint64_t seed)) {
  const std::vector<std::uint32_t> sizes{1, 8, 64, 72, 128};
  const std::uint32_t nodes = 5, size = sizes[seed % sizes.size()];
  Rng rng(seed);
  const auto below = [&rng](std::uint64_t most) {
    return static_cast<std::uint32_t>(rng.below(most));
  };
  const Cluster cluster = toy::cluster(nodes, size);
  World world(cluster);
  std::vector<JobId> running;
  for (int i = 0; i < 60; ++i) {
    if (!running.empty() && below(3) == 0) {
      std::swap(running[below(running.size())], running.back());
      world.apply(JobDone{running.back()}, i);
      running.pop_back();
    } else if (below(6) == 0) {
      const bool gpu = below(2) == 0;
      const Part part{gpu ? PartKind::gpu : PartKind::node, below(gpu ? nodes * size : nodes)};
      world.apply(PartChanged{part, {.health = below(2) == 0 ? Health::ok : Health::lost}}, i);
    } else {
      GpuRuns gpus;  // every other free one, or neighbours
      const std::uint32_t first = below(nodes * size), most = 1 + below(2 * size);
      for (std::uint32_t gpu = first; gpu < nodes * size && gpus.size() < most;
           gpu += seed % 2 == 0 ? 1 : 2) {
        if (world.state().owner[gpu] == ClusterState::kNobody) gpus.push_back({gpu});
      }
      if (gpus.empty()) continue;
      JobSpec spec;
      spec.id = {world.jobs().submitted()};
      spec.gpus = spec.layout.data = static_cast<std::uint32_t>(gpus.size());
      running.push_back(spec.id);
      const ParallelLayout layout = spec.layout;
      world.apply(JobSubmitted{spec}, i);
      world.apply(JobStarted{.job = spec.id, .epoch = {1}, .from = 0, .where = {gpus, layout}}, i);
    }
    const ClusterState& state = world.state();
    std::uint32_t free = 0;
    for (std::uint32_t node = 0; node < nodes; ++node) {
      std::uint32_t here = 0;
      for (std::uint32_t at = 0; at < size; ++at) {
        const GpuId gpu{node * size + at};
        const bool is_free =
            state.owner[gpu.value] == ClusterState::kNobody && state.is_healthy(gpu, {node});
        const std::uint64_t word = state.free_bits[node * state.words_per_node + at / 64];
        RC_ASSERT((word >> at % 64 & 1) == (is_free ? 1u : 0u));
        here += is_free ? 1 : 0;
      }
      RC_ASSERT(state.free_per_node[node] == here);
      free += here;
    }
    RC_ASSERT(state.free == free);
  }
}

// ---- where a job stands -------------------------------------------------------------------

TEST_F(WorldTest, AJobWaitsIsAssignedRunsAndEnds) {
  submit(elastic());
  EXPECT_EQ(job().phase, JobPhase::waiting);
  decide(toy::assign(0, 4, 4));
  EXPECT_EQ(job().phase, JobPhase::starting);
  EXPECT_FALSE(job().is_placed());
  EXPECT_EQ(world_.state().free, 12u) << "it is to have them: nobody else may";
  EXPECT_EQ(world_.state().owner[4], JobId{0});
  start();
  EXPECT_EQ(job().phase, JobPhase::running);
  EXPECT_EQ(job().gpus, toy::gpus(4, 4));
  EXPECT_EQ(job().shares(), (List{10, 10, 10, 10}));
  EXPECT_FALSE(job().next);
  apply(JobDone{{0}}, 7 * kNanosPerSecond);
  EXPECT_EQ(job().phase, JobPhase::done);
  EXPECT_EQ(job().gpu_seconds, 28);
  EXPECT_EQ(world_.state().free_per_node, (List{4, 4, 4, 4}));
}

TEST_F(WorldTest, ADecisionHoldsOnlyWithItsOutcome) {
  submit(elastic());
  world_.announce_decision({.id = 5, .what = toy::assign(0, 0, 4)});
  EXPECT_EQ(job().phase, JobPhase::waiting);
  apply(Decided{5, Outcome::rejected, "no"});
  EXPECT_EQ(job().phase, JobPhase::waiting);
  EXPECT_EQ(world_.state().free, 16u);
  EXPECT_THROW(world_.apply(Decided{5, Outcome::applied, ""}, 0), Error);
  world_.announce_decision({.id = 6, .what = toy::assign(0, 0, 4)});
  EXPECT_THROW(world_.announce_decision({.id = 6, .what = Save{{0}}}), Error);
}

TEST_F(WorldTest, AJobGrowsAndIsDividedAnew) {
  run();
  apply(StepsDone{{0}, 4, 5});
  decide(toy::assign(0, 0, 8, StateFrom::peer));
  EXPECT_EQ(job().gpus.size(), 4u) << "not before it has come true";
  EXPECT_EQ(job().layout.data, 4u);
  EXPECT_EQ(world_.state().free, 8u);
  EXPECT_EQ(objection(toy::assign(0, 0, 2)), "job 0 is being assigned already");
  start(0, 5);
  EXPECT_EQ(job().gpus, toy::gpus(0, 8));
  EXPECT_EQ(job().shares(), (List{5, 5, 5, 5, 5, 5, 5, 5}));
  EXPECT_EQ(job().step, 5u);
}

TEST_F(WorldTest, AJobShrinksToTheReplicasThatAreLeft) {
  run();
  apply(StepsDone{{0}, 4, 5});
  lose({{1}});
  const Standing left = without_lost(job());
  EXPECT_EQ(left.gpus, (GpuRuns{{0}, {2}, {3}}));
  decide(Assign{{0}, left.gpus, left.layout, StateFrom::peer});
  EXPECT_EQ(world_.state().free, 12u) << "GPU 1 is its own until it has come true";
  start(0, 5);
  EXPECT_EQ(job().shares(), (List{14, 13, 13}));
  EXPECT_TRUE(job().lost.empty());
  EXPECT_EQ(world_.state().free, 13u);
  EXPECT_EQ(world_.state().owner[1], ClusterState::kNobody);
  EXPECT_EQ(objection(Configure{{0}, Shares{{14, 14, 12}}}), "");
}

TEST_F(WorldTest, RanksKeepTheirOrderWhereWholeReplicasLeave) {
  JobSpec spec = elastic();
  spec.layout = {.tensor = 1, .context = 1, .pipeline = 2, .data = 2, .pipeline_last = true};
  run(spec);
  lose({{2}});  // the second stage of replica 0
  EXPECT_EQ(lost_replicas(job()), (std::vector<bool>{true, false}));
  EXPECT_EQ(without_lost(job()).gpus, (GpuRuns{{1}, {3}}));
  EXPECT_EQ(without_lost(job()).layout.ranks(), 2u);
}

TEST_F(WorldTest, ASpareTakesTheLostRanksPlace) {
  run();
  lose({{2}});
  const GpuRuns with_spare{{0}, {1}, {9}, {3}};
  decide(Assign{{0}, with_spare, job().layout, StateFrom::peer});
  EXPECT_EQ(world_.state().owner[9], JobId{0});
  start();
  EXPECT_EQ(job().gpus[2], GpuId{9});
  EXPECT_EQ(world_.state().owner[2], ClusterState::kNobody);
  EXPECT_EQ(world_.state().free_per_node, (List{1, 4, 3, 4}));
  EXPECT_EQ(job().shares(), (List{10, 10, 10, 10}));
}

TEST_F(WorldTest, AJobLeavesAndAnotherStartsInOneGroup) {
  run();
  submit(elastic(1));
  const std::vector<Decision> group{{.id = 0, .what = Assign{{0}}},
                                    {.id = 1, .what = toy::assign(1, 0, 4)}};
  EXPECT_EQ(world_.objection(group[1]), "GPU 0 is taken by job 0");
  EXPECT_EQ(world_.objection(group), std::pair(std::size_t{2}, std::string()));
  const std::vector<Decision> other_way{group[1], group[0]};
  EXPECT_EQ(world_.objection(other_way).first, 0u);
  for (const Decision& decision : group) {
    world_.announce_decision(decision);
    apply(Decided{decision.id, Outcome::applied, ""});
  }
  EXPECT_EQ(world_.state().owner[0], JobId{1});
  EXPECT_EQ(job(0).phase, JobPhase::running) << "until it has left";
  apply(JobStopped{{0}, 3});
  EXPECT_EQ(job(0).phase, JobPhase::waiting);
  EXPECT_EQ(job(0).step, 3u);
  EXPECT_EQ(world_.state().free, 12u);
  start(1);
  EXPECT_EQ(job(1).gpus, toy::gpus(0, 4));
  EXPECT_EQ(world_.state().free, 12u);
}

TEST_F(WorldTest, AGroupCountsWithWhatItHasDecidedItself) {
  run();
  submit(elastic(1));
  submit(elastic(2));
  const auto objection = [this](std::vector<Action> actions) {
    std::vector<Decision> group;
    for (Action& action : actions) group.push_back({.id = group.size(), .what = action});
    return world_.objection(group);
  };
  const auto taken = objection({toy::assign(1, 8, 4), toy::assign(2, 11, 4)});
  EXPECT_EQ(taken.first, 1u);
  EXPECT_EQ(taken.second, "GPU 11 is taken by job 1");
  EXPECT_EQ(objection({toy::assign(0, 0, 2), toy::assign(1, 2, 4)}).second, "");
  EXPECT_EQ(objection({toy::assign(0, 0, 2), toy::assign(1, 1, 4)}).second,
            "GPU 1 is taken by job 0");
  EXPECT_EQ(objection({toy::assign(0, 0, 2), toy::assign(0, 0, 3)}).second,
            "job 0 is assigned twice");
  EXPECT_EQ(objection({Assign{{0}}, toy::assign(0, 8, 4)}).second, "job 0 is assigned twice");
}

TEST_F(WorldTest, ScatteredGpusOfWhichSomeAreKeptAreGivenBack) {
  submit(elastic());
  decide(Assign{{0}, {{9}, {2}, {14}, {5}}, {.data = 4}});
  start();
  decide(Assign{{0}, {{5}, {3}, {9}}, {.data = 3}, StateFrom::peer});
  start();
  EXPECT_EQ(world_.state().free_per_node, (List{3, 3, 3, 4}));
  EXPECT_EQ(world_.state().owner[14], ClusterState::kNobody);
  EXPECT_EQ(world_.state().owner[9], JobId{0});
  apply(JobDone{{0}});
  EXPECT_EQ(world_.state().free, 16u);
}

TEST_F(WorldTest, TwoJobsDoNotGetTheSameGpusInOneBatch) {
  submit(elastic(0));
  submit(elastic(1));
  decide(toy::assign(0, 0, 4));
  EXPECT_EQ(objection(toy::assign(1, 2, 4)), "GPU 2 is taken by job 0");
  world_.announce_decision({.id = 9, .what = toy::assign(1, 2, 4)});
  EXPECT_THROW(world_.apply(Decided{9, Outcome::applied, ""}, 0), Error);
}

TEST_F(WorldTest, WhoStopsBeforeItStartedGivesItsGpusBack) {
  submit(elastic());
  decide(toy::assign(0, 0, 4));
  EXPECT_EQ(objection(Assign{{0}}), "");
  decide(Assign{{0}});
  apply(JobStopped{{0}, 0});
  EXPECT_EQ(world_.state().free, 16u);
  EXPECT_EQ(job().phase, JobPhase::waiting);
  decide(toy::assign(0, 4, 4));
  start();
  EXPECT_EQ(world_.state().free_per_node, (List{4, 0, 4, 4}));
}

// ---- losses -------------------------------------------------------------------------------

TEST_F(WorldTest, TheMicroBatchesOfALostReplicaGoToTheOthersUntilItIsBack) {
  run();
  decide(Configure{{0}, Shares{{12, 10, 8, 10}}}, 3);
  lose({{2}});
  EXPECT_EQ(job().shares(), (List{14, 13, 0, 13}));
  EXPECT_EQ(job().epoch, Epoch{2});
  EXPECT_TRUE(can_go_on(job()));
  EXPECT_TRUE(job().is_lost({2}));
  EXPECT_EQ(objection(Configure{{0}, Shares{{13, 13, 1, 13}}}), "replica 2 has lost a rank");
  apply(StepsDone{{0}, 3, 4});  // the shares announced for it are void
  EXPECT_EQ(job().shares(), (List{14, 13, 0, 13}));
  lose({{0}});
  EXPECT_EQ(job().lost, (std::vector<RankId>{{0}, {2}}));
  EXPECT_EQ(job().shares(), (List{0, 20, 0, 20}));
  apply(toy::started(world_, 0, toy::standing(0, 4), 4));
  EXPECT_EQ(job().shares(), (List{10, 10, 10, 10}));
}

TEST_F(WorldTest, SurvivorsWithoutTheMemoryCannotGoOn) {
  run();  // 40 micro-batches, at most 20 each
  lose({{0}, {1}});
  EXPECT_TRUE(can_go_on(job()));
  lose({{2}});
  EXPECT_FALSE(can_go_on(job()));
  const Standing left = without_lost(job());
  EXPECT_EQ(objection(Assign{{0}, left.gpus, left.layout, StateFrom::peer}),
            "1 replicas have memory for 20 micro-batches, not 40");
  EXPECT_EQ(objection(toy::assign(0, 0, 4, StateFrom::peer)), "");
  lose({{3}});
  EXPECT_EQ(objection(toy::assign(0, 0, 4, StateFrom::peer)),
            "job 0 has no replica left to take its state from");
  EXPECT_EQ(objection(toy::assign(0, 0, 4, StateFrom::checkpoint)), "job 0 has no checkpoint yet");
  apply(SaveDone{.job = {0}, .step = 0}, 5);
  EXPECT_EQ(objection(toy::assign(0, 0, 4, StateFrom::checkpoint)), "");
}

TEST_F(WorldTest, OnLossReplaceAssignsTheSameGpusByItself) {
  run();
  decide(Configure{{0}, OnLoss{LossResponse::replace}});
  lose({{1}});
  ASSERT_TRUE(job().next);
  EXPECT_EQ(*job().next, toy::standing(0, 4));
  EXPECT_EQ(objection(toy::assign(0, 0, 3)), "job 0 is being assigned already");
  start();
  EXPECT_TRUE(job().lost.empty());
  EXPECT_FALSE(job().next);
}

TEST_F(WorldTest, NobodyIsReplacedOnALostGpuOrUnlessOnLossSaysSo) {
  run();
  lose({{3}});
  EXPECT_FALSE(job().next);
  decide(Configure{{0}, OnLoss{LossResponse::replace}});
  part(PartKind::gpu, 1, Health::lost);
  lose({{1}});
  EXPECT_FALSE(job().next);
}

TEST_F(WorldTest, AHeldJobStandsStillUntilItIsAssignedAnew) {
  run();
  apply(StepsDone{{0}, 1, 2});
  lose({{1}});
  apply(JobHeld{{0}});
  EXPECT_EQ(job().phase, JobPhase::held);
  EXPECT_FALSE(can_go_on(job()));
  EXPECT_EQ(objection(Save{{0}}), "job 0 is not running");
  EXPECT_NE(world_.objection(StepsDone{{0}, 2}), "");
  EXPECT_EQ(objection(Configure{{0}, OnLoss{}}), "");
  decide(toy::assign(0, 0, 4, StateFrom::peer));
  start(0, 2);
  EXPECT_EQ(job().phase, JobPhase::running);
  EXPECT_EQ(job().step, 2u);
}

TEST_F(WorldTest, SuspectsAreThoseNamedLast) {
  run();
  apply(RanksSuspected{{0}, {{3}, {1}}});
  EXPECT_EQ(job().suspected, (std::vector<RankId>{{1}, {3}}));
  lose({{1}});
  EXPECT_EQ(job().suspected, (std::vector<RankId>{{3}}));
  apply(RanksSuspected{{0}, {}});
  EXPECT_TRUE(job().suspected.empty());
}

// ---- parts --------------------------------------------------------------------------------

TEST_F(WorldTest, AGpuLostWhileItIsFreeIsNotFree) {
  part(PartKind::gpu, 5, Health::lost);
  EXPECT_EQ(world_.state().free_per_node, (List{4, 3, 4, 4}));
  EXPECT_EQ(world_.state().parts.at({PartKind::gpu, 5}).since, 3);
  submit(elastic());
  EXPECT_EQ(objection(toy::assign(0, 4, 4)), "GPU 5 is lost");
  part(PartKind::gpu, 5, Health::ok);
  EXPECT_EQ(world_.state().free, 16u);
  EXPECT_TRUE(world_.state().parts.empty());
}

TEST_F(WorldTest, AGpuLostUnderAJobIsNotFreeWhenTheJobEnds) {
  run();
  part(PartKind::gpu, 2, Health::lost);
  lose({{2}});
  EXPECT_EQ(world_.state().free, 12u);
  apply(JobDone{{0}});
  EXPECT_EQ(world_.state().free, 15u);
  submit(elastic(1));
  EXPECT_EQ(objection(toy::assign(1, 1, 4)), "GPU 2 is lost");
  part(PartKind::gpu, 2, Health::ok);
  EXPECT_EQ(world_.state().free, 16u);
  EXPECT_EQ(objection(toy::assign(1, 1, 4)), "");
}

TEST_F(WorldTest, AGpuThatFailsWhileItsJobIsAwayIsNotGivenToItAgain) {
  run();
  decide(Assign{{0}});
  apply(JobStopped{{0}, 42});
  part(PartKind::gpu, 2, Health::lost);
  EXPECT_EQ(objection(toy::assign(0, 0, 4)), "GPU 2 is lost");
}

TEST_F(WorldTest, ANodeTakesItsGpusWithIt) {
  run();
  part(PartKind::node, 0, Health::lost);
  part(PartKind::node, 1, Health::lost);
  part(PartKind::gpu, 4, Health::lost);
  EXPECT_EQ(world_.state().free, 8u);
  part(PartKind::node, 1, Health::ok);
  EXPECT_EQ(world_.state().free_per_node, (List{0, 3, 4, 4})) << "GPU 4 stays lost";
  apply(JobDone{{0}});
  EXPECT_EQ(world_.state().free_per_node, (List{0, 3, 4, 4}));
  part(PartKind::node, 0, Health::ok);
  EXPECT_EQ(world_.state().free, 15u);
}

TEST_F(WorldTest, SlowAndSuspectedPartsAreKnownAndCanBeUsed) {
  apply(PartChanged{{PartKind::gpu, 1}, {.rate = 0.5}}, 9);
  part(PartKind::link, 2, Health::suspected);
  part(PartKind::nic, 3, Health::lost);
  EXPECT_EQ(world_.state().parts.size(), 3u);
  EXPECT_EQ(world_.state().parts.at({PartKind::gpu, 1}).rate, 0.5);
  EXPECT_EQ(world_.state().free, 16u);
  EXPECT_TRUE(world_.state().is_lost({PartKind::nic, 3}));
  EXPECT_FALSE(world_.state().is_lost({PartKind::link, 2}));
  submit(elastic());
  EXPECT_EQ(objection(toy::assign(0, 0, 4)), "");
  EXPECT_EQ(world_.objection(PartChanged{{PartKind::gpu, 16}, {}}), "there is no gpu 16");
  EXPECT_EQ(world_.objection(PartChanged{{PartKind::link, cluster_.links()}, {}}),
            "there is no link " + std::to_string(cluster_.links()));
}

// ---- settings -----------------------------------------------------------------------------

TEST_F(WorldTest, ASettingHoldsFromItsStepOn) {
  run();
  const List even{10, 10, 10, 10}, shifted{13, 13, 1, 13};
  decide(Configure{{0}, Shares{shifted}}, 2);
  EXPECT_EQ(job().shares(), even);
  apply(StepsDone{{0}, 0});
  EXPECT_EQ(job().shares(), even);
  apply(StepsDone{{0}, 1});
  EXPECT_EQ(job().step, 2u);
  EXPECT_EQ(job().shares(), shifted);
  decide(Configure{{0}, Shares{even}}, 5);
  decide(Configure{{0}, Shares{shifted}}, 4);
  apply(StepsDone{{0}, 9, 8});
  EXPECT_EQ(job().shares(), even) << "many steps at once: the later one holds";
}

TEST_F(WorldTest, CodesHoldFromTheirStepOnAndLeaveWithTheJob) {
  run();
  const CodecRules int4{{.codec = Codec::int4}};
  decide(Configure{{0}, int4}, 2);
  apply(StepsDone{{0}, 0});
  EXPECT_TRUE(job().now.get<CodecRules>().empty());
  apply(StepsDone{{0}, 1});
  EXPECT_EQ(job().now.get<CodecRules>(), int4);
  EXPECT_EQ(objection(Configure{{0}, int4}, 1), "step 1 is past: job 0 works on step 2");
  EXPECT_EQ(objection(Configure{{0}, CodecRules{{.bucket_class = 3}}}),
            "there is no bucket class 3");
  EXPECT_NE(objection(Configure{{0}, CodecRules{{.codec = Codec::int4, .parameter = 7}}}), "");
  decide(Configure{{0}, CodecRules{}});
  EXPECT_TRUE(job().now.get<CodecRules>().empty());
  decide(Configure{{0}, int4}, 9);
  decide(Assign{{0}});
  apply(JobStopped{{0}, 2});
  decide(toy::assign(0, 0, 4));
  start(0, 2);
  apply(StepsDone{{0}, 9, 8});
  EXPECT_TRUE(job().now.get<CodecRules>().empty());
}

TEST_F(WorldTest, AJobStartsWithItsSpecsSettingsEachTime) {
  JobSpec spec = elastic();
  spec.settings = {OnLoss{LossResponse::hold}, CheckpointPlan{.every_steps = 5}};
  run(spec);
  EXPECT_EQ(job().now.get<OnLoss>().response, LossResponse::hold);
  EXPECT_EQ(job().now.get<CheckpointPlan>().every_steps, 5u);
  decide(Configure{{0}, OnLoss{LossResponse::go_on}});
  decide(toy::assign(0, 0, 8));
  start();
  EXPECT_EQ(job().now.get<OnLoss>().response, LossResponse::go_on) << "it has only grown";
  apply(JobStopped{{0}, 0});
  decide(toy::assign(0, 0, 4));
  start();
  EXPECT_EQ(job().now.get<OnLoss>().response, LossResponse::hold);
}

TEST_F(WorldTest, WhatAJobsProgramDoesNotLetBeSetIsRefused) {
  JobSpec spec = elastic();
  spec.can = Kinds<Setting>::of<OnLoss>();
  run(spec);
  EXPECT_EQ(objection(Configure{{0}, OnLoss{}}), "");
  EXPECT_EQ(objection(Configure{{0}, CodecRules{}}),
            "job 0 cannot change its CodecRules while it runs");
}

TEST_F(WorldTest, CheckpointsAreRememberedByTheNewestDurableOne) {
  run();
  apply(StepsDone{{0}, 9, 10});
  apply(SaveDone{.job = {0}, .step = 8, .tier = Tier::storage}, 50);
  EXPECT_EQ(job().saved, 8u);
  EXPECT_EQ(job().saved_at, 50);
  apply(SaveDone{.job = {0}, .step = 10, .tier = Tier::storage, .durable = false}, 60);
  apply(SaveDone{.job = {0}, .step = 7, .tier = Tier::peer}, 70);
  EXPECT_EQ(job().saved, 8u);
  EXPECT_EQ(job().saved_at, 50);
}

TEST_F(WorldTest, WhoBeganAnewHasNoCheckpointOfStepsToCome) {
  run();
  apply(StepsDone{{0}, 9, 10});
  apply(SaveDone{.job = {0}, .step = 8, .tier = Tier::storage}, 50);
  const Standing where{job().gpus, job().layout};
  apply(JobStarted{.job = {0}, .epoch = {3}, .from = 8, .where = where});
  EXPECT_EQ(job().saved, 8u) << "from there it went on";
  apply(JobStarted{.job = {0}, .epoch = {4}, .from = 0, .where = where});
  EXPECT_EQ(job().saved_at, 0) << "never";
  apply(StepsDone{{0}, 3, 4});
  apply(SaveDone{.job = {0}, .step = 4, .tier = Tier::storage}, 90);
  EXPECT_EQ(job().saved, 4u) << "fewer than before";
}

// ---- what is refused ----------------------------------------------------------------------

TEST_F(WorldTest, ObjectionsSayWhatIsWrong) {
  JobSpec rigid = toy::job(0);
  run(rigid);
  submit(toy::job(1));
  apply(StepsDone{{0}, 3, 4});
  EXPECT_EQ(objection(Assign{{9}}), "there is no job 9");
  EXPECT_EQ(objection(toy::assign(9, 0, 4)), "there is no job 9");
  EXPECT_EQ(objection(Assign{{1}}), "job 1 is not running");
  EXPECT_EQ(objection(toy::assign(0, 0, 4)), "job 0 is placed there already");
  EXPECT_EQ(objection(toy::assign(0, 4, 4)), "") << "it moves";
  EXPECT_EQ(objection(toy::assign(1, 3, 4)), "GPU 3 is taken by job 0");
  EXPECT_EQ(objection(toy::assign(1, 14, 4)), "there is no GPU 16");
  EXPECT_EQ(objection(toy::assign(1, 4, 3)), "job 1 wants 4 GPUs, not 3");
  EXPECT_EQ(objection(Assign{{1}, {{4}, {5}, {5}, {6}}, {.data = 4}}), "GPU 5 is named twice");
  EXPECT_EQ(objection(toy::assign(1, 4, 4)), "");
  EXPECT_EQ(objection(Configure{{0}, Shares{{10, 10, 10, 11}}}),
            "the step has 40 micro-batches, not 41");
  EXPECT_EQ(objection(Configure{{0}, Shares{{20, 20, 0}}}), "job 0 has 4 replicas, not 3");
  EXPECT_EQ(objection(Configure{{0}, Shares{{21, 19, 0, 0}}}),
            "replica 0 has memory for 20 micro-batches, not 21");
  EXPECT_EQ(objection(Configure{{0}, Shares{{20, 20, 0, 0}}}, 3),
            "step 3 is past: job 0 works on step 4");
  EXPECT_EQ(objection(Configure{{0}, Shares{{20, 20, 0, 0}}}, 4), "");
  EXPECT_EQ(objection(Configure{{1}, OnLoss{}}), "job 1 is not running");
  EXPECT_EQ(objection(Configure{{7}, OnLoss{}}), "there is no job 7");
  EXPECT_EQ(objection(Save{{1}}), "job 1 is not running");
  EXPECT_EQ(objection(Save{{0}}, 2), "step 2 is past: job 0 works on step 4");
  EXPECT_EQ(objection(toy::assign(1, 4, 4, StateFrom::peer)),
            "job 1 has no replica left to take its state from");
}

TEST_F(WorldTest, LayoutsThatNoJobCanHaveAreRefused) {
  JobSpec spec = elastic();
  spec.layout = {.tensor = 2, .data = 2};
  run(spec);
  submit(toy::plain(1, 4));
  const auto layout = [this](std::uint32_t job, ParallelLayout to) {
    return objection(Assign{{job}, toy::gpus(4, 4), to});
  };
  EXPECT_EQ(layout(0, {.tensor = 2, .data = 2}), "");
  for (const ParallelLayout to :
       {ParallelLayout{.tensor = 0, .context = 0, .pipeline = 0, .data = 0},
        ParallelLayout{.tensor = 1, .data = 4}, ParallelLayout{.tensor = 2, .data = 3},
        ParallelLayout{.tensor = 2, .data = 2, .pipeline_last = true},
        ParallelLayout{.tensor = 2, .context = 2, .data = 1}}) {
    EXPECT_NE(layout(0, to), "");
  }
  EXPECT_EQ(layout(1, {}), "");
  const std::string no_ranks = "the layout has no ranks: each of its sizes must be 1 or more";
  EXPECT_EQ(layout(1, {.data = 0}), no_ranks);
  EXPECT_EQ(layout(1, {.pipeline = 0}), no_ranks);
  JobSpec nothing = toy::plain(2, 1);
  nothing.layout.tensor = 0;
  EXPECT_EQ(world_.objection(JobSubmitted{nothing}), no_ranks);
  EXPECT_EQ(world_.objection(JobStarted{{1}, {1}, 0, {toy::gpus(4, 4), {.context = 0}}}),
            no_ranks);
}

TEST_F(WorldTest, StepsThatAreNotTheNextAreRefused) {
  run();
  apply(StepsDone{{0}, 7, 8});
  constexpr Step kMost = std::numeric_limits<Step>::max();
  for (const StepsDone done :
       {StepsDone{{0}, 3}, StepsDone{{0}, 7}, StepsDone{{0}, 9}, StepsDone{{0}, 9, 1},
        StepsDone{{0}, 8, 0}, StepsDone{{0}, 8, 2}, StepsDone{{0}, kMost, 1},
        StepsDone{{0}, kMost, kMost - 7}, StepsDone{{0}, 0, kMost}}) {
    EXPECT_NE(world_.objection(done), "") << done.last << " " << done.count;
  }
  EXPECT_EQ(world_.objection(StepsDone{{0}, 3}),
            "job 0 works on step 8 and cannot complete steps 3 to 3");
  EXPECT_EQ(world_.objection(StepsDone{{0}, 9, 2}), "");
}

TEST_F(WorldTest, ImpossibleEventsAreRefusedWithAReason) {
  EXPECT_EQ(world_.objection(JobDone{{0}}), "there is no job 0");
  EXPECT_EQ(world_.objection(JobSubmitted{toy::job(1)}),
            "expected the submission of job 0, found that of job 1");
  JobSpec crooked = toy::job();
  crooked.layout.data = 3;
  EXPECT_EQ(world_.objection(JobSubmitted{crooked}),
            "job 0 has 4 GPUs for a layout of 1 x 1 x 1 x 3");
  submit(elastic());
  EXPECT_EQ(world_.objection(StepsDone{{0}, 0}), "job 0 is not running");
  EXPECT_EQ(world_.objection(JobHeld{{0}}), "job 0 is not running");
  EXPECT_EQ(world_.objection(RanksLost{{0}, {{0}}, {1}}), "job 0 has no rank 0");
  EXPECT_EQ(world_.objection(JobStarted{{0}, {1}, 0, {}}), "job 0 starts without GPUs");
  EXPECT_EQ(world_.objection(JobStarted{{0}, {1}, 0, {toy::gpus(14, 4), {.data = 4}}}),
            "there is no GPU 16");
  EXPECT_EQ(world_.objection(JobStarted{{0}, {1}, 0, {{{0}, {1}, {2}, {1}}, {.data = 4}}}),
            "GPU 1 is named twice");
  EXPECT_NE(world_.objection(JobStarted{{0}, {1}, 0, toy::standing(0, 4), {{4}}}), "");
  EXPECT_EQ(world_.objection(JobStarted{{0}, {1}, 0, {toy::gpus(0, 4), {.data = 3}}}),
            "job 0 starts with a layout of 3 ranks on 4 GPUs");
  apply(JobStarted{{0}, {1}, 0, toy::standing(0, 4)});
  EXPECT_EQ(world_.objection(RanksLost{{0}, {{4}}, {2}}), "job 0 has no rank 4");
  EXPECT_EQ(world_.objection(RanksLost{{0}, {{3}}, {1}}), "epoch 1 of job 0 is not after epoch 1");
  EXPECT_EQ(world_.objection(SaveDone{.job = {0}, .step = 1}),
            "job 0 works on step 0, found a checkpoint of step 1");
  EXPECT_EQ(world_.objection(Decided{3, Outcome::applied, ""}), "decision 3 was not announced");
  submit(elastic(1));
  EXPECT_EQ(world_.objection(JobStarted{{1}, {1}, 0, toy::standing(3, 4)}),
            "GPU 3 is taken by job 0");
  apply(JobDone{{0}});
  EXPECT_EQ(world_.objection(StepsDone{{0}, 0}), "job 0 is over");
  EXPECT_EQ(world_.objection(SaveDone{.job = {0}}), "job 0 is over");
  EXPECT_EQ(world_.objection(JobStarted{{0}, {2}, 0, toy::standing(0, 4)}), "there is no job 0");
  EXPECT_EQ(objection(Assign{{0}}), "job 0 is done");
  EXPECT_THROW(world_.apply(JobDone{{0}}, 0), Error);
}

TEST_F(WorldTest, OneVersionAChange) {
  const std::uint64_t before = world_.state().version;
  apply(Tick{});
  EXPECT_EQ(world_.state().version, before);
  submit(elastic());
  EXPECT_EQ(world_.state().version, before + 1);
}

// ---- jobs that are over -------------------------------------------------------------------

TEST_F(WorldTest, AJobThatIsOverLeavesWithTheNextBatch) {
  run(elastic(0), 0);
  run(elastic(1), 4);
  run(elastic(2), 8);
  apply(JobDone{{1}});
  EXPECT_NE(world_.jobs().find({1}), nullptr) << "its end is being shown";
  world_.begin_batch();
  EXPECT_EQ(world_.jobs().find({1}), nullptr);
  EXPECT_EQ(world_.jobs().size(), 2u);
  EXPECT_EQ(world_.jobs().submitted(), 3u);
  List ids;
  for (const JobInfo& each : world_.jobs()) ids.push_back(each.spec.id.value);
  EXPECT_EQ(ids, (List{0, 2}));
  EXPECT_THROW(world_.jobs()[{1}], Error);
  EXPECT_EQ(objection(Save{{1}}), "there is no job 1");
  EXPECT_EQ(world_.jobs().find({3}), nullptr);
  run(elastic(3), 4);
  ids.clear();
  for (const JobInfo& each : world_.jobs()) ids.push_back(each.spec.id.value);
  EXPECT_EQ(ids, (List{0, 2, 3}));
}

// ---- properties ---------------------------------------------------------------------------

/// Invariants: the free counts are those of a recount, and no micro-batch is lost.
void check_invariants(const World& world) {
  const ClusterState& state = world.state();
  List free_per_node(world.cluster().nodes());
  std::uint32_t free = 0;
  for (std::uint32_t i = 0; i < world.cluster().gpus(); ++i) {
    const NodeId node = world.cluster().node_of({i});
    if (state.owner[i] != ClusterState::kNobody || !state.is_healthy({i}, node)) continue;
    ++free;
    ++free_per_node[node.value];
  }
  RC_ASSERT(state.free == free);
  RC_ASSERT(state.free_per_node == free_per_node);
  for (const JobInfo& job : world.jobs()) {
    std::uint64_t sum = 0;
    for (const std::uint32_t share : job.shares()) sum += share;
    RC_ASSERT(sum == (job.is_placed() ? job.spec.micro_batches : 0));
    RC_ASSERT(job.shares().size() == (job.is_placed() ? job.layout.data : 0));
    RC_ASSERT(!job.is_placed() || job.gpus.size() == job.layout.ranks());
    RC_ASSERT(job.is_placed() || job.lost.empty());
    for (const RankId rank : job.lost) RC_ASSERT(rank.value < job.gpus.size());
    if (job.next && job.next->gpus.empty()) continue;  // others may be promised its GPUs
    for (const GpuId gpu : job.next ? job.next->gpus : job.gpus) {
      RC_ASSERT(state.owner[gpu.value] == job.spec.id);
    }
  }
}

class RandomLife {
 public:
  explicit RandomLife(std::uint64_t seed) : rng_(seed) {}

  void live(int turns) {
    for (int i = 0; i < turns; ++i) {
      if (rng_.below(4) == 0) world_.begin_batch();
      if (rng_.below(2) == 0) {
        const Event event = random_event();
        if (world_.objection(event).empty()) world_.apply(event, i);
      } else {
        decide(random_group());
      }
      check_invariants(world_);
    }
  }

 private:
  std::uint32_t below(std::uint64_t bound) { return static_cast<std::uint32_t>(rng_.below(bound)); }
  JobId any_job() { return {below(world_.jobs().submitted() + 1)}; }

  Event random_event() {
    const JobId id = any_job();
    const JobInfo* job = world_.jobs().find(id);
    const Epoch epoch{job == nullptr ? 1 : job->epoch.value + below(3)};
    switch (below(10)) {
      case 0: {
        JobSpec spec = toy::job(world_.jobs().submitted());
        spec.least_gpus = 2, spec.most_gpus = 6;
        return JobSubmitted{spec};
      }
      case 1: return JobDone{id};
      case 2: return StepsDone{id, below(8), 1 + below(3)};
      case 3: return RanksLost{id, {{below(5)}, {below(5)}}, epoch};
      case 4: return JobHeld{id};
      case 5: return JobStopped{id, below(8)};
      case 6:
        return PartChanged{{below(3) > 0 ? PartKind::gpu : PartKind::node, below(18)},
                           {.health = static_cast<Health>(below(3))}};
      case 7: return RanksSuspected{id, {{below(5)}}};
      default: {
        const bool told = job != nullptr && job->next && !job->next->gpus.empty();
        return JobStarted{id, epoch, below(8), told ? *job->next : toy::standing(below(14), 3)};
      }
    }
  }

  Action random_action() {
    const JobId job = any_job();
    if (below(4) == 0) return Assign{job};
    if (below(3) == 0) {
      const std::uint32_t moved = below(13);
      return Configure{job, Shares{{10 + moved, 10, 10, 10 - moved}}};
    }
    Assign assign =
        toy::assign(job.value, below(14), 1 + below(7), static_cast<StateFrom>(below(2)));
    if (below(2) == 0) assign.gpus = scattered(assign.layout.data);
    return assign;
  }

  /// Here and there, in any order.
  GpuRuns scattered(std::uint32_t count) {
    std::vector<GpuId> all = toy::gpus(0, 16).to_vector();
    for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + below(16 - i)]);
    return {all.begin(), all.begin() + count};
  }

  std::vector<Decision> random_group() {
    std::vector<Decision> group;
    for (std::uint64_t i = 1 + below(3); i > 0; --i) {
      group.push_back({.id = next_++, .what = random_action(), .at_step = below(6)});
    }
    // A setting is applied after the assignment of its group with which it starts.
    std::stable_partition(group.begin(), group.end(), [](const Decision& each) {
      return std::holds_alternative<Assign>(each.what);
    });
    return group;
  }

  void decide(const std::vector<Decision>& group) {
    if (!world_.objection(group).second.empty()) return;
    world_.begin_batch();
    for (const Decision& decision : group) world_.announce_decision(decision);
    for (const Decision& decision : group) {
      world_.apply(Decided{decision.id, Outcome::applied, ""}, 0);
    }
  }

  const Cluster cluster_ = toy::cluster(4, 4);
  World world_{cluster_};
  Rng rng_;
  DecisionId next_ = 0;
};

RC_GTEST_PROP(WorldProperty, CountsAndSumsHoldAndAGroupWithoutObjectionHolds,
              (std::uint64_t seed)) {
  RandomLife(seed).live(300);
}

}  // namespace
}  // namespace orrery

#include "policies/world.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

Decision numbered(std::uint64_t number, Action what, Step effective = 0) {
  Decision decision{.number = number, .what = std::move(what)};
  decision.effective_at_step = effective;
  return decision;
}

/// Announces a decision and reports it applied.
void carry_out(World& world, const Decision& decision) {
  ASSERT_EQ(world.objection(decision), "");
  world.announce(decision);
  world.apply(DecisionOutcome{decision.number, Outcome::applied, ""});
}

TEST(World, EvenSplitGivesTheRemainderToTheFirst) {
  EXPECT_EQ(even_split(10, 4), (std::vector<std::uint32_t>{3, 3, 2, 2}));
  EXPECT_EQ(even_split(2, 3), (std::vector<std::uint32_t>{1, 1, 0}));
  EXPECT_TRUE(even_split(5, 0).empty());
}

TEST(World, AJobWaitsRunsAndEnds) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  world.apply(JobSubmitted{toy::job()});
  EXPECT_EQ(world.jobs()[0].phase, JobPhase::waiting);
  EXPECT_EQ(world.state().free, 4u);

  carry_out(world, numbered(0, PlaceJob{{0}, toy::gpus(0, 4)}));
  EXPECT_EQ(world.jobs()[0].phase, JobPhase::running);
  EXPECT_EQ(world.jobs()[0].per_replica, (std::vector<std::uint32_t>{10, 10, 10, 10}));
  EXPECT_EQ(world.state().free, 0u);
  EXPECT_EQ(world.state().gpus[3].owner, JobId{0});

  world.apply(JobDone{{0}});
  EXPECT_EQ(world.jobs()[0].phase, JobPhase::done);
  EXPECT_EQ(world.state().free_per_node, (std::vector<std::uint32_t>{2, 2}));
}

TEST(World, ADecisionTakesEffectOnlyWithItsOutcome) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  world.apply(JobSubmitted{toy::job()});
  world.announce(numbered(5, PlaceJob{{0}, toy::gpus(0, 4)}));
  EXPECT_EQ(world.jobs()[0].phase, JobPhase::waiting);
  world.apply(DecisionOutcome{5, Outcome::rejected, "no"});
  EXPECT_EQ(world.jobs()[0].phase, JobPhase::waiting);
  EXPECT_THROW(world.apply(DecisionOutcome{5, Outcome::applied, ""}), Error);
}

TEST(World, AShiftHoldsFromItsStepOn) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  world.apply(JobSubmitted{toy::job(), toy::gpus(0, 4)});
  const std::vector<std::uint32_t> even{10, 10, 10, 10}, shifted{13, 13, 1, 13};
  carry_out(world, numbered(0, ShiftMicrobatches{{0}, shifted}, 2));
  EXPECT_EQ(world.jobs()[0].per_replica, even);
  world.apply(StepDone{{0}, 0, 1});
  EXPECT_EQ(world.jobs()[0].per_replica, even);
  world.apply(StepDone{{0}, 1, 1});
  EXPECT_EQ(world.jobs()[0].step, 2u);
  EXPECT_EQ(world.jobs()[0].per_replica, shifted);
}

TEST(World, CodesHoldFromTheirStepOnAndLeaveWithTheJob) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  world.apply(JobSubmitted{toy::job(), toy::gpus(0, 4)});
  const std::vector<CodecRule> int4{{.codec = Codec::int4}};
  carry_out(world, numbered(0, SetCodec{{0}, int4}, 2));
  world.apply(StepDone{{0}, 0, 1});
  EXPECT_TRUE(world.jobs()[0].codecs.empty());
  world.apply(StepDone{{0}, 1, 1});
  EXPECT_EQ(world.jobs()[0].codecs, int4);
  EXPECT_EQ(world.objection(numbered(1, SetCodec{{0}, int4}, 1)),
            "step 1 is past: job 0 works on step 2");
  EXPECT_EQ(world.objection(numbered(1, SetCodec{{0}, {{.bucket_class = 3}}})),
            "there is no bucket class 3");
  EXPECT_NE(world.objection(numbered(1, SetCodec{{0}, {{.codec = Codec::int4, .parameter = 7}}})),
            "");
  carry_out(world, numbered(1, SetCodec{{0}, {}}));
  EXPECT_TRUE(world.jobs()[0].codecs.empty());
  carry_out(world, numbered(2, SetCodec{{0}, int4}, 9));
  carry_out(world, numbered(3, Preempt{{0}}));
  carry_out(world, numbered(4, PlaceJob{{0}, toy::gpus(0, 4)}));
  world.apply(StepDone{{0}, 9, 1});
  EXPECT_TRUE(world.jobs()[0].codecs.empty());
}

TEST(World, PreemptionForgetsShiftsAhead) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  world.apply(JobSubmitted{toy::job(), toy::gpus(0, 4)});
  carry_out(world, numbered(0, ShiftMicrobatches{{0}, {13, 13, 1, 13}}, 1));
  carry_out(world, numbered(1, Preempt{{0}}));
  EXPECT_EQ(world.jobs()[0].phase, JobPhase::waiting);
  EXPECT_EQ(world.state().free, 4u);
  carry_out(world, numbered(2, PlaceJob{{0}, toy::gpus(0, 4)}));
  world.apply(StepDone{{0}, 0, 1});
  EXPECT_EQ(world.jobs()[0].per_replica, (std::vector<std::uint32_t>{10, 10, 10, 10}));
}

TEST(World, ObjectionsSayWhatIsWrong) {
  const Cluster cluster = toy::cluster(4);
  World world(cluster);
  world.apply(JobSubmitted{toy::job(0), toy::gpus(0, 4)});
  world.apply(JobSubmitted{toy::job(1)});
  world.apply(StepDone{{0}, 3, 1});
  const auto objection = [&world](Action what, Step effective = 0) {
    return world.objection(numbered(0, std::move(what), effective));
  };
  EXPECT_EQ(objection(PlaceJob{{9}, {}}), "there is no job 9");
  EXPECT_EQ(objection(PlaceJob{{0}, toy::gpus(4, 4)}), "job 0 is not waiting");
  EXPECT_EQ(objection(PlaceJob{{1}, toy::gpus(3, 4)}), "GPU 3 is taken by job 0");
  EXPECT_EQ(objection(PlaceJob{{1}, toy::gpus(6, 4)}), "there is no GPU 8");
  EXPECT_EQ(objection(PlaceJob{{1}, toy::gpus(4, 3)}), "job 1 wants 4 GPUs, not 3");
  EXPECT_EQ(objection(PlaceJob{{1}, {{4}, {5}, {5}, {6}}}), "GPU 5 is named twice");
  EXPECT_EQ(objection(PlaceJob{{1}, toy::gpus(4, 4)}), "");
  EXPECT_EQ(objection(ShiftMicrobatches{{0}, {10, 10, 10, 11}}),
            "the step has 40 micro-batches, not 41");
  EXPECT_EQ(objection(ShiftMicrobatches{{0}, {20, 20, 0}}), "job 0 has 4 replicas, not 3");
  EXPECT_EQ(objection(ShiftMicrobatches{{0}, {21, 19, 0, 0}}),
            "replica 0 has memory for 20 micro-batches, not 21");
  EXPECT_EQ(objection(ShiftMicrobatches{{0}, {20, 20, 0, 0}}, 3),
            "step 3 is past: job 0 works on step 4");
  EXPECT_EQ(objection(ShiftMicrobatches{{0}, {20, 20, 0, 0}}, 4), "");
  EXPECT_EQ(objection(Preempt{{1}}), "job 1 is not running");
  EXPECT_EQ(objection(SetPowerCap{{99}, {300}}), "there is no GPU 99");
  EXPECT_EQ(objection(SetBuckets{{7}, {1e6}}), "there is no job 7");
}

TEST(World, ImpossibleEventsAreRefused) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  EXPECT_THROW(world.apply(JobDone{{0}}), Error);
  EXPECT_THROW(world.apply(JobSubmitted{toy::job(1)}), Error);
  EXPECT_THROW(world.apply(LinkDown{{cluster.links()}}), Error);
  JobSpec crooked = toy::job();
  crooked.data = 3;
  EXPECT_THROW(world.apply(JobSubmitted{crooked}), Error);
  world.apply(JobSubmitted{toy::job(), toy::gpus(0, 4)});
  EXPECT_THROW(world.apply(RankLost{{0}, {4}}), Error);
  EXPECT_EQ(world.state().free, 0u);
}

TEST(World, ALostGpuIsNotFreeUntilItIsBack) {
  const Cluster cluster = toy::cluster(4);
  World world(cluster);
  world.apply(JobSubmitted{toy::job(0), toy::gpus(0, 4)});
  world.apply(RankLost{{0}, {1}});
  EXPECT_EQ(world.jobs()[0].ranks[1], Health::lost);
  world.apply(JobDone{{0}});
  EXPECT_EQ(world.state().free, 7u);
  EXPECT_EQ(world.state().free_per_node[0], 1u);
  world.apply(JobSubmitted{toy::job(1)});
  EXPECT_EQ(world.objection(numbered(0, PlaceJob{{1}, toy::gpus(1, 4)})), "GPU 1 is lost");
}

TEST(World, TheMicroBatchesOfALostReplicaGoToTheOthersUntilItIsBack) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  world.apply(JobSubmitted{toy::job(), toy::gpus(0, 4)});
  carry_out(world, numbered(0, ShiftMicrobatches{{0}, {12, 10, 8, 10}}, 3));
  using Shares = std::vector<std::uint32_t>;
  world.apply(RankLost{{0}, {2}});
  EXPECT_EQ(world.jobs()[0].per_replica, (Shares{14, 13, 0, 13}));
  EXPECT_TRUE(can_go_on(world.jobs()[0]));
  EXPECT_TRUE(replica_lost(world.jobs()[0], 2));
  EXPECT_EQ(world.objection(numbered(1, ShiftMicrobatches{{0}, {13, 13, 1, 13}})),
            "replica 2 has lost a rank");
  world.apply(StepDone{{0}, 3});  // the shift announced for it is void
  EXPECT_EQ(world.jobs()[0].per_replica, (Shares{14, 13, 0, 13}));
  world.apply(RankLost{{0}, {0}});
  EXPECT_EQ(world.jobs()[0].per_replica, (Shares{0, 20, 0, 20}));
  world.apply(RankBack{{0}, {2}});
  EXPECT_EQ(world.jobs()[0].per_replica, (Shares{0, 13, 13, 14}));
}

TEST(World, SurvivorsWithoutTheMemoryCannotGoOn) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  world.apply(JobSubmitted{toy::job(), toy::gpus(0, 4)});  // 40 micro-batches, at most 20 each
  for (const std::uint32_t rank : {0u, 1u}) world.apply(RankLost{{0}, {rank}});
  EXPECT_TRUE(can_go_on(world.jobs()[0]));
  world.apply(RankLost{{0}, {2}});
  EXPECT_FALSE(can_go_on(world.jobs()[0]));
  world.apply(RankBack{{0}, {1}});
  EXPECT_TRUE(can_go_on(world.jobs()[0]));
}

TEST(World, LinksGoDownAndUp) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  world.apply(LinkDown{{2}});
  world.apply(LinkDown{{2}});
  EXPECT_EQ(world.state().links_down, std::vector<LinkId>{{2}});
  world.apply(LinkUp{{2}});
  EXPECT_TRUE(world.state().links_down.empty());
}

/// Whatever happens: the free counts are what counting gives, and no micro-batch is lost.
void check_invariants(const World& world) {
  std::vector<std::uint32_t> free_per_node(world.cluster().nodes());
  std::uint32_t free = 0;
  for (std::uint32_t i = 0; i < world.cluster().gpus(); ++i) {
    const GpuState& gpu = world.state().gpus[i];
    if (gpu.taken || gpu.health != Health::ok) continue;
    ++free;
    ++free_per_node[world.cluster().node_of({i}).value];
  }
  RC_ASSERT(world.state().free == free);
  RC_ASSERT(world.state().free_per_node == free_per_node);
  for (const JobInfo& job : world.jobs()) {
    const bool running = job.phase == JobPhase::running;
    std::uint32_t sum = 0;
    for (const std::uint32_t share : job.per_replica) sum += share;
    RC_ASSERT(sum == (running ? job.spec.micro_batches : 0));
    RC_ASSERT(job.gpus.size() == (running ? job.spec.gpus : 0));
    for (const GpuId gpu : job.gpus) RC_ASSERT(world.state().gpus[gpu.value].owner == job.spec.id);
  }
}

Event random_event(Rng& rng, const World& world) {
  const JobId job{static_cast<std::uint32_t>(rng.below(world.jobs().size() + 1))};
  const RankId rank{static_cast<std::uint32_t>(rng.below(5))};
  switch (rng.below(7)) {
    case 0: return JobSubmitted{toy::job(job.value)};
    case 1: return JobDone{job};
    case 2: return StepDone{job, rng.below(8)};
    case 3: return RankLost{job, rank};
    case 4: return RankBack{job, rank};
    case 5: return RankSuspected{job, rank};
    default: return LinkDown{{rank.value}};
  }
}

Action random_action(Rng& rng, const World& world) {
  const JobId job{static_cast<std::uint32_t>(rng.below(world.jobs().size() + 1))};
  if (rng.below(3) == 0) return Preempt{job};
  if (rng.below(2) == 0) {
    const auto moved = static_cast<std::uint32_t>(rng.below(13));
    return ShiftMicrobatches{job, {10 + moved, 10, 10, 10 - moved}};
  }
  return PlaceJob{job, toy::gpus(static_cast<std::uint32_t>(rng.below(14)), 4)};
}

RC_GTEST_PROP(WorldProperty, CountsAndSumsHold, (std::uint64_t seed)) {
  const Cluster cluster = toy::cluster(8);
  World world(cluster);
  Rng rng(seed);
  for (std::uint64_t i = 0; i < 200; ++i) {
    if (rng.below(2) == 0) {
      const Event event = random_event(rng, world);
      if (world.objection(event).empty()) world.apply(event);
    } else {
      const Decision decision = numbered(i, random_action(rng, world), rng.below(6));
      if (world.objection(decision).empty()) carry_out(world, decision);
    }
    check_invariants(world);
  }
}

TEST(JobSpec, ReplicaOfARankInBothOrders) {
  JobSpec job;
  job.tensor = 2, job.context = 2, job.pipeline = 3, job.data = 4;
  EXPECT_EQ(job.ranks_per_replica(), 12u);
  EXPECT_EQ(job.replica_of({11}), 0u);  // the last stage of the first replica
  EXPECT_EQ(job.replica_of({12}), 1u);
  job.pipeline_last = true;
  EXPECT_EQ(job.replica_of({3}), 0u);
  EXPECT_EQ(job.replica_of({4}), 1u);   // the first stage of the second replica
  EXPECT_EQ(job.replica_of({16}), 0u);  // the second stage of the first
}

}  // namespace
}  // namespace orrery

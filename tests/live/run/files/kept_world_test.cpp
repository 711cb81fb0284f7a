#include "live/run/files/kept_world.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/seam/job.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::live {
namespace {

/// Eight GPUs on two nodes and one job of four replicas that has lived through something.
class KeptWorldTest : public ::testing::Test {
 protected:
  KeptWorldTest()
      : cluster_(build_cluster(
            load_scenario(ORRERY_SOURCE_DIR "/examples/straggler-4-ranks.yaml", {})
                .scenario.cluster(),
            SourceMap{})),
        world_(cluster_) {
    JobSpec spec;
    spec.id = {0};
    spec.name = "training";
    spec.gpus = 4;
    spec.layout.data = 4;
    spec.least_gpus = 1;
    spec.most_gpus = 4;
    spec.micro_batches = 16;
    spec.steps = 100;
    spec.can = Kinds<Setting>::all();
    spec.settings = {OnLoss{LossResponse::replace}, CheckpointPlan{7, Tier::local_disk}};
    world_.apply(JobSubmitted{spec}, 0);
    world_.apply(JobStarted{.job = {0}, .epoch = {1}, .from = 0,
                            .where = {GpuRuns::range({0}, 4), spec.layout}},
                 0);
    world_.apply(StepsDone{.job = {0}, .last = 9, .count = 10, .duration = 5}, 50);
    world_.apply(RanksLost{.job = {0}, .ranks = {RankId{2}}, .epoch = {2}}, 60);
    world_.apply(RanksSuspected{JobId{0}, {RankId{1}}}, 61);
    world_.apply(PartChanged{{PartKind::gpu, 2}, {.health = Health::lost, .rate = 0}}, 62);
    set(10, Batch{16, 1.5});
    set(20, Shares{{8, 4, 0, 4}});
    world_.apply(SaveDone{.job = {0}, .step = 7, .tier = Tier::local_disk, .stalled = 0,
                          .took = 3, .durable = true},
                 70);
  }

  /// Decided and applied, from that step on.
  void set(Step from, const Setting& setting) {
    Decision decision;
    decision.id = next_++;
    decision.what = Configure{JobId{0}, setting};
    decision.at_step = from;
    world_.announce_decision(decision);
    world_.apply(Decided{decision.id, Outcome::applied, {}}, 65);
  }

  static std::string bytes(const World& world) {
    KeptWorld kept;
    EXPECT_TRUE(keep(world, kept));
    return kept.SerializeAsString();
  }

  const Cluster cluster_;
  World world_;
  DecisionId next_ = 0;
};

TEST_F(KeptWorldTest, IsTheSameWhenItIsRead) {
  KeptWorld kept;
  ASSERT_TRUE(keep(world_, kept));
  World again = read_world(kept, cluster_);
  EXPECT_EQ(bytes(again), bytes(world_));
  const JobInfo& was = world_.jobs()[JobId{0}];
  const JobInfo& is = again.jobs()[JobId{0}];
  EXPECT_EQ(is.phase, was.phase);
  EXPECT_EQ(is.step, 10u);
  EXPECT_EQ(is.saved, 7u);
  EXPECT_EQ(is.lost, was.lost);
  EXPECT_EQ(is.suspected, was.suspected);
  EXPECT_EQ(is.now, was.now);
  EXPECT_EQ(is.gpu_seconds, was.gpu_seconds);
  EXPECT_EQ(again.state().version, world_.state().version);
  EXPECT_EQ(again.state().free, world_.state().free);
  EXPECT_TRUE(again.state().is_lost({PartKind::gpu, 2}));
}

TEST_F(KeptWorldTest, GoesOnAsTheOtherDoes) {
  KeptWorld kept;
  ASSERT_TRUE(keep(world_, kept));
  World again = read_world(kept, cluster_);
  for (World* each : {&world_, &again}) {
    // The setting for step 20 is valid from there on.
    each->apply(StepsDone{.job = {0}, .last = 19, .count = 10, .duration = 5}, 100);
    each->apply(PartChanged{{PartKind::gpu, 2}, {}}, 110);
    each->apply(RanksLost{.job = {0}, .ranks = {RankId{0}}, .epoch = {3}}, 120);
  }
  EXPECT_EQ(bytes(again), bytes(world_));
  EXPECT_EQ(again.jobs()[JobId{0}].shares(), world_.jobs()[JobId{0}].shares());
}

TEST_F(KeptWorldTest, IsNotWrittenWhileADecisionIsOpen) {
  Decision decision;
  decision.id = next_;
  decision.what = Configure{JobId{0}, OnLoss{LossResponse::hold}};
  world_.announce_decision(decision);
  KeptWorld kept;
  EXPECT_FALSE(keep(world_, kept));
}

TEST_F(KeptWorldTest, OfAnotherClusterIsRefused) {
  KeptWorld kept;
  ASSERT_TRUE(keep(world_, kept));
  kept.add_owner(0);
  EXPECT_THROW(read_world(kept, cluster_), Error);
}

}  // namespace
}  // namespace orrery::live

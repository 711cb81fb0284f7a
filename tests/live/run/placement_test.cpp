#include "live/run/placement.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "topologies/builder.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::live {
namespace {

/// Eight GPUs; the job has the first four, or whatever it is assigned.
class PlacementTest : public ::testing::Test {
 protected:
  PlacementTest()
      : cluster_(build_cluster(
            load_scenario(ORRERY_SOURCE_DIR "/examples/straggler-4-ranks.yaml", {"cluster.nodes=2"})
                .scenario.cluster(),
            SourceMap{})),
        world_(cluster_) {
    JobSpec spec;
    spec.id = kLiveJob;
    spec.gpus = 4;
    spec.layout.data = 4;
    spec.least_gpus = 1;
    spec.most_gpus = 4;
    spec.micro_batches = 16;
    spec.can = Kinds<Setting>::all();
    world_.apply(JobSubmitted{spec}, 0);
    world_.apply(JobStarted{.job = kLiveJob,
                            .epoch = {1},
                            .from = 0,
                            .where = {GpuRuns::range({0}, 4), spec.layout}},
                 0);
  }

  void lose(std::uint32_t rank) {
    world_.apply(RanksLost{.job = kLiveJob, .ranks = {RankId{rank}}, .epoch = {2}}, 1);
  }

  void assign(const std::vector<std::uint32_t>& gpus) {
    Assign where{.job = kLiveJob, .gpus = {}, .layout = {}, .state = StateFrom::peer};
    for (const std::uint32_t gpu : gpus) where.gpus.push_back(GpuId{gpu});
    where.layout.data = static_cast<std::uint32_t>(gpus.size());
    Decision decision;
    decision.what = where;
    world_.announce(decision);
    world_.apply(Decided{decision.id, Outcome::applied, {}}, 2);
  }

  const Cluster cluster_;
  World world_;
  Placement placement_{world_, 8};
};

TEST_F(PlacementTest, RanksSitOnTheGpusOfTheJob) {
  EXPECT_EQ(placement_.rank_in(2), RankId{2});
  EXPECT_FALSE(placement_.works(4));
  EXPECT_EQ(placement_.share(0), 4u);
  EXPECT_EQ(placement_.share(4), 0u);
  EXPECT_EQ(placement_.counted(), 4u);
  EXPECT_TRUE(placement_.complete({0, 1, 2, 3}));
  EXPECT_FALSE(placement_.complete({0, 1, 2}));
  EXPECT_FALSE(placement_.complete({0, 1, 2, 4}));
}

TEST_F(PlacementTest, ALostRankIsNobodyUntilItIsWantedAgain) {
  lose(1);
  EXPECT_FALSE(placement_.works(1));
  EXPECT_FALSE(placement_.wanted(1));
  EXPECT_TRUE(placement_.complete({0, 2, 3}));
  EXPECT_FALSE(placement_.complete({0, 1, 2, 3}));
  assign({0, 1, 2, 3});
  EXPECT_TRUE(placement_.wanted(1));
  EXPECT_EQ(placement_.awaited(), (std::vector<std::uint32_t>{0, 1, 2, 3}));
}

TEST_F(PlacementTest, AnAssignmentIsAssembledOnceAllThatItNamesAreThere) {
  lose(3);
  assign({0, 1, 5});
  EXPECT_TRUE(placement_.to_leave(2));
  EXPECT_TRUE(placement_.wanted(5));
  EXPECT_FALSE(placement_.assembled({0, 1, 2}));
  EXPECT_TRUE(placement_.complete({0, 1, 2}));  // they go on until then
  EXPECT_TRUE(placement_.assembled({0, 1, 2, 5}));
  EXPECT_FALSE(placement_.complete({0, 1, 2, 5}));
}

TEST_F(PlacementTest, WhoCannotBeStartedIsLeftOut) {
  lose(3);
  assign({0, 1, 2, 5});
  placement_.give_up(5);
  EXPECT_FALSE(placement_.wanted(5));
  EXPECT_TRUE(placement_.assembled({0, 1, 2}));
  EXPECT_EQ(placement_.coming().layout.data, 3u);
  placement_.try_again(5);
  EXPECT_FALSE(placement_.assembled({0, 1, 2}));
}

}  // namespace
}  // namespace orrery::live

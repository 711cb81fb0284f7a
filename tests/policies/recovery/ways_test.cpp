#include "policies/recovery/ways.hpp"

#include <gtest/gtest.h>

#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

/// A job of four ranks on the first two of four nodes of two GPUs.
class WaysTest : public ::testing::Test {
 protected:
  WaysTest() {
    JobSpec spec = toy::job();
    spec.least_gpus = 1;
    toy::run_on(world_, spec);
  }
  void lose(std::vector<RankId> ranks) {
    world_.apply(RanksLost{{0}, std::move(ranks), {world_.jobs()[{0}].epoch.value + 1}}, 1);
  }
  void down(Part part) { world_.apply(PartChanged{part, {.health = Health::lost, .rate = 0}}, 1); }
  void up(Part part) { world_.apply(PartChanged{part, {}}, 2); }
  Observation seen() { return toy::seen_of(world_, {}, samples_, 5); }
  const JobInfo& job() { return world_.jobs()[{0}]; }

  Cluster cluster_ = toy::cluster(4);
  World world_{cluster_};
  NoSamples samples_;
};

TEST_F(WaysTest, WhereTheHardwareIsWellItIsWholeAgainInPlace) {
  lose({{2}});
  EXPECT_EQ(whole_again(seen(), job()), (Standing{toy::gpus(0, 4), {.data = 4}}));
}

TEST_F(WaysTest, ALostGpuTakesItsNodesRanksToAFreeNode) {
  down({PartKind::gpu, 2});
  lose({{2}});
  EXPECT_EQ(whole_again(seen(), job()), (Standing{GpuRuns{{0}, {1}, {4}, {5}}, {.data = 4}}));
  down({PartKind::gpu, 5});  // a node with a lost GPU is no spare
  EXPECT_EQ(whole_again(seen(), job()), (Standing{GpuRuns{{0}, {1}, {6}, {7}}, {.data = 4}}));
  down({PartKind::node, 3});
  EXPECT_EQ(whole_again(seen(), job()), std::nullopt);
  up({PartKind::node, 3});
  EXPECT_TRUE(whole_again(seen(), job()).has_value());
}

TEST_F(WaysTest, GpusBehindTheOthersComeLastInALiveRunsOrder) {
  down({PartKind::gpu, 0});
  lose({{0}});
  EXPECT_EQ(whole_again(seen(), job()), (Standing{GpuRuns{{2}, {3}, {4}, {5}}, {.data = 4}}));
}

TEST_F(WaysTest, SmallerIsWithoutTheLostIfItMayBe) {
  lose({{1}});
  EXPECT_EQ(smaller(job()), (Standing{GpuRuns{{0}, {2}, {3}}, {.data = 3}}));
  lose({{0}, {2}, {3}});
  EXPECT_EQ(smaller(job()), std::nullopt);
}

TEST_F(WaysTest, HomeIsWhereAllIsWell) {
  const Standing home{toy::gpus(0, 4), {.data = 4}};
  EXPECT_EQ(back_home(seen(), job(), home), home);
  down({PartKind::gpu, 1});
  EXPECT_EQ(back_home(seen(), job(), home), std::nullopt);
}

TEST_F(WaysTest, StateComesFromWhoHasIt) {
  lose({{1}});
  EXPECT_EQ(nearest_state(job()), StateFrom::peer);
  EXPECT_EQ(kept_state(job()), StateFrom::none) << "nothing was saved yet";
  world_.apply(SaveDone{{0}, 0, Tier::local_disk, 0, 0}, 3);
  lose({{0}, {2}, {3}});
  EXPECT_EQ(nearest_state(job()), StateFrom::checkpoint);
}

}  // namespace
}  // namespace orrery

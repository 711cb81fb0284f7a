#include "policies/seam/checkpoint_copies.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "policies/seam/job.hpp"
#include "tests/traces/sample_cluster.hpp"

namespace orrery {
namespace {

/// Ranks on GPUs of the nodes 0, 0, 1 and 1 of a cluster of two nodes.
class CheckpointCopiesTest : public ::testing::Test {
 protected:
  std::uint32_t per_node() const { return cluster_.shape().gpus_per_node; }
  std::vector<CopyHolders> holders(Tier tier) const {
    return copy_holders(tier, cluster_, {{0}, {1}, {per_node()}, {per_node() + 1}});
  }
  const Cluster cluster_ = testing::sample_cluster(2);
};

TEST_F(CheckpointCopiesTest, ATierHasOneHolderTwoOrNone) {
  const NodeId a{0}, b{1};
  EXPECT_EQ(holders(Tier::memory), (std::vector<CopyHolders>{{a, a}, {a, a}, {b, b}, {b, b}}));
  EXPECT_EQ(holders(Tier::peer), (std::vector<CopyHolders>{{a, b}, {a, b}, {b, a}, {b, a}}));
  EXPECT_TRUE(holders(Tier::local_disk).empty());
  EXPECT_TRUE(is_in_memory(Tier::peer));
  EXPECT_FALSE(is_in_memory(Tier::local_disk));
}

TEST_F(CheckpointCopiesTest, AShardIsLostWithItsLastHolder) {
  std::vector<CopyHolders> memory = holders(Tier::memory), peer = holders(Tier::peer);
  EXPECT_TRUE(remove_holder(memory, {7})) << "holds none";
  EXPECT_FALSE(remove_holder(memory, {1}));
  EXPECT_TRUE(remove_holder(peer, {1}));
  EXPECT_EQ(peer[0], (CopyHolders{{0}, {0}}));
  EXPECT_TRUE(remove_holder(peer, {1})) << "a node is lost twice, with nothing in between";
  EXPECT_FALSE(remove_holder(peer, {0}));
  std::vector<CopyHolders> none;
  EXPECT_TRUE(remove_holder(none, {0})) << "nothing is in memory";
}

TEST_F(CheckpointCopiesTest, TheNewestCheckpointWithAllShardsCounts) {
  HeldCheckpoints held;
  EXPECT_EQ(held.newest(), nullptr);
  held.add_checkpoint({10, Tier::local_disk, 100, {}});
  held.add_checkpoint({14, Tier::memory, 140, holders(Tier::memory)});
  held.add_checkpoint({12, Tier::peer, 120, holders(Tier::peer)});
  held.add_checkpoint({13, Tier::memory, 150, holders(Tier::memory)});  // came late
  EXPECT_EQ(held.all().size(), 3u);
  EXPECT_EQ(held.newest()->step, 14u);
  held.lose_node({1});
  EXPECT_EQ(held.newest()->step, 12u) << "the peers of node 1 hold its shards";
  held.lose_node({0});
  EXPECT_EQ(held.newest()->step, 10u) << "the disk is what is left";
  held.add_checkpoint({20, Tier::memory, 200, holders(Tier::memory)});
  held.forget_after(19);
  EXPECT_EQ(held.newest()->step, 10u);
  held.forget_after(3);
  EXPECT_EQ(held.newest(), nullptr);
}

TEST_F(CheckpointCopiesTest, OfEqualStepsTheFastestTierCounts) {
  HeldCheckpoints held;
  held.add_checkpoint({10, Tier::local_disk, 100, {}});
  held.add_checkpoint({10, Tier::memory, 90, holders(Tier::memory)});
  EXPECT_EQ(held.newest()->tier, Tier::memory);
}

TEST(SaveRequests, OneCheckpointBeginsAtAStep) {
  SaveRequests asked;
  EXPECT_EQ(asked.due(8, {0, Tier::memory}), std::nullopt);
  EXPECT_EQ(asked.due(8, {4, Tier::memory}), Tier::memory);
  asked.request_save(Tier::local_disk);
  asked.request_save(Tier::peer);
  asked.request_save(Tier::peer);
  EXPECT_EQ(asked.due(7, {4, Tier::memory}), Tier::peer) << "the fastest";
  EXPECT_EQ(asked.due(8, {4, Tier::local_disk}), Tier::local_disk) << "the periodic one is first";
  asked.remove_request(Tier::peer);
  EXPECT_EQ(asked.due(9, {4, Tier::memory}), Tier::local_disk);
  SaveRequests later;
  later.take_over(asked);
  EXPECT_TRUE(asked.is_empty());
  EXPECT_TRUE(later.has_request(Tier::local_disk));
}

}  // namespace
}  // namespace orrery

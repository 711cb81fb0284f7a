#include "live/group/program_epoch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "core/random.hpp"
#include "live/group/member.hpp"

namespace orrery::live {
namespace {

using Ranks = std::vector<std::size_t>;

ProgramEpoch first_epoch(std::size_t ranks) {
  ProgramEpoch epoch;
  for (std::size_t rank = 0; rank < ranks; ++rank) epoch.members.push_back(rank);
  epoch.changed.resize(ranks);
  return epoch;
}

TEST(ProgramEpoch, OnlyGroupsOfALostRankConnectAnew) {
  const ProgramEpoch begin = first_epoch(4);
  const ProgramEpoch lost = next_epoch(begin, {0, 1, 2}, false);
  EXPECT_EQ(lost.number, 1u);
  EXPECT_EQ(epoch_of_group(lost, {2, 3}), 1u);
  EXPECT_EQ(epoch_of_group(lost, {0, 1}), 0u);
  EXPECT_EQ(epoch_of_group(next_epoch(lost, {0, 1}, false), {0, 2}), 2u);
  EXPECT_EQ(epoch_of_group(next_epoch(lost, {0, 1, 2}, true), {0, 1}), 2u) << "after a cut";
  EXPECT_EQ(epoch_of_group(next_epoch(lost, {0, 1, 2, 3}, false), {2, 3}), 2u) << "replaced";
}

TEST(ProgramEpoch, AMessageHasAllOfAnEpoch) {
  const ProgramEpoch lost = next_epoch(next_epoch(first_epoch(3), {0, 1, 2}, true), {0, 2}, false);
  const ProgramEpoch heard = epoch_of(message_of(lost));
  EXPECT_EQ(heard.number, 2u);
  EXPECT_EQ(heard.members, (Ranks{0, 2}));
  EXPECT_EQ(heard.reset, 1u);
  EXPECT_EQ(heard.changed, (std::vector<std::uint64_t>{0, 2, 0}));
  EXPECT_ANY_THROW(epoch_of({"epoch", "1", "0,1"}));
  EXPECT_TRUE(numbers_in("").empty());
}

/// Ranks of a mesh of replicas and shards, under the rule of `orrery run` for refused operations.
struct Mesh {
  std::size_t replicas, shards;
  std::set<std::size_t> members = {};
  ProgramEpoch epoch = {};
  std::map<std::size_t, GroupMember> shard_groups = {};  ///< member of the shard group of each rank

  Mesh(std::size_t replicas_, std::size_t shards_) : replicas(replicas_), shards(shards_) {
    epoch = first_epoch(replicas * shards);
    members = {epoch.members.begin(), epoch.members.end()};
    for (const std::size_t rank : members) {
      GroupMember& group = shard_groups.emplace(rank, GroupMember(shards)).first->second;
      announce(rank);
      group.finish_step(GroupStep::connect, 0);
      group.accept_progress(std::vector<GroupProgress>(shards), 0);
      group.begin_operation(OperationKind::sharded, "reduce_scatter");
    }
  }
  Ranks replica_of(std::size_t rank) const {
    Ranks ranks;
    for (std::size_t at = 0; at < shards; ++at) ranks.push_back(rank / shards * shards + at);
    return ranks;
  }
  void announce(std::size_t rank) {
    const Ranks group = replica_of(rank);
    const auto alive = std::count_if(group.begin(), group.end(),
                                     [this](std::size_t each) { return members.count(each) > 0; });
    shard_groups.at(rank).announce_epoch(epoch_of_group(epoch, group),
                                         static_cast<std::size_t>(alive));
  }
  /// Loses ranks, and then those that refuse, until nobody refuses.
  void lose(std::set<std::size_t> lost) {
    while (!lost.empty()) {
      for (const std::size_t rank : lost) members.erase(rank);
      epoch = next_epoch(epoch, {members.begin(), members.end()}, false);
      lost.clear();
      for (const std::size_t rank : members) {
        announce(rank);
        if (shard_groups.at(rank).next_step() == GroupStep::refuse) lost.insert(rank);
      }
    }
  }
};

TEST(ProgramEpoch, ALossIsContainedInItsReplicaWhileTheOthersAreInTheMiddleOfAReduceScatter) {
  const char* const given = std::getenv("ORRERY_SEED");
  const std::uint64_t seed = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  SCOPED_TRACE("ORRERY_SEED=" + std::to_string(seed));
  Rng dice(seed);
  for (int schedule = 0; schedule < 2000; ++schedule) {
    Mesh mesh(2 + dice.below(4), 2 + dice.below(3));
    std::set<std::size_t> whole;
    for (std::size_t replica = 0; replica < mesh.replicas; ++replica) whole.insert(replica);
    for (std::uint64_t losses = 1 + dice.below(3); losses > 0; --losses) {
      std::set<std::size_t> lost;
      for (std::uint64_t count = 1 + dice.below(2); count > 0; --count) {
        lost.insert(dice.below(mesh.replicas * mesh.shards));
      }
      for (const std::size_t rank : lost) whole.erase(rank / mesh.shards);
      mesh.lose(lost);
      std::set<std::size_t> left;
      for (const std::size_t rank : mesh.members) {
        left.insert(rank / mesh.shards);
        EXPECT_EQ(mesh.shard_groups.at(rank).next_step(), GroupStep::perform);
        EXPECT_EQ(mesh.shard_groups.at(rank).epoch(), 0u) << "its connections stay";
      }
      EXPECT_EQ(left, whole);
      EXPECT_EQ(mesh.members.size(), whole.size() * mesh.shards);
    }
  }
}

}  // namespace
}  // namespace orrery::live

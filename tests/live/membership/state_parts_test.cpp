#include "live/membership/state_parts.hpp"

#include <gtest/gtest.h>

#include "tests/live/membership/model.hpp"

namespace orrery::live::membership {
namespace {

std::vector<Holder> holders_of(const std::vector<std::uint32_t>& those) {
  std::vector<Holder> holders;
  for (const std::uint32_t rank : those) holders.push_back({.seat = {rank, 0}, .heard = 10 + rank});
  return holders;
}

const std::vector<Seat> kFour{{0, 0}, {1, 0}, {2, 0}, {3, 0}};

TEST(StateParts, AWholeStateIsOnEachHolder) {
  StateParts parts{StateParts::Keepers()};
  parts.add_distribution(kFour);
  EXPECT_EQ(parts.count_copies(holders_of({1, 3})), 2u);
  EXPECT_EQ(parts.complete_since(holders_of({1, 3})), 13) << "the newest is enough";
  EXPECT_EQ(parts.count_copies({}), 0u);
  EXPECT_FALSE(parts.complete_since({}));
}

TEST(StateParts, APartIsOnItsOwnerAndItsKeeper) {
  StateParts parts(half_the_list_on);
  EXPECT_EQ(parts.count_copies(holders_of({1})), 1u) << "nothing has been dealt yet";
  parts.add_distribution(kFour);
  EXPECT_EQ(parts.count_copies(holders_of({0, 1, 2, 3})), 2u);
  EXPECT_EQ(parts.count_copies(holders_of({1, 2})), 1u);
  EXPECT_EQ(parts.count_copies(holders_of({1, 3})), 0u);
  EXPECT_EQ(parts.complete_since(holders_of({0, 1, 2, 3})), 12) << "of 2 and 3: one of each pair";
  EXPECT_EQ(parts.complete_since(holders_of({0, 3})), 10);
  EXPECT_FALSE(parts.complete_since(holders_of({1, 3})));
  EXPECT_EQ(parts.count_copies({{{1, 0}, 0}, {{2, 1}, 0}}), 0u) << "another process of rank 2";
  parts.clear();
  EXPECT_EQ(parts.count_copies(holders_of({1})), 1u);
}

TEST(StateParts, OfOneMemberThereIsOneCopy) {
  StateParts parts(half_the_list_on);
  parts.add_distribution({{2, 0}});
  EXPECT_EQ(parts.count_copies(holders_of({2})), 1u);
  EXPECT_EQ(parts.complete_since(holders_of({2})), 12);
}

TEST(StateParts, AnEarlierDistributionCountsUntilTheNextCommit) {
  StateParts parts(half_the_list_on);
  parts.add_distribution(kFour);
  parts.add_distribution({{1, 0}, {2, 0}, {3, 0}});
  EXPECT_EQ(parts.count_copies(holders_of({1, 3})), 1u) << "of the newer one";
  EXPECT_EQ(parts.count_copies(holders_of({0, 1})), 1u) << "of the older one";
  parts.keep_newest();
  EXPECT_EQ(parts.count_copies(holders_of({1, 3})), 1u);
  EXPECT_EQ(parts.count_copies(holders_of({0, 1})), 0u);
}

}  // namespace
}  // namespace orrery::live::membership

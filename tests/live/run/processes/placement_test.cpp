#include "live/run/processes/placement.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "tests/live/run/one_job.hpp"

namespace orrery::live {
namespace {

TEST(Placement, RanksSitOnTheGpusOfTheJob) {
  OneJob run;
  EXPECT_EQ(run.placement.rank_in(2), RankId{2});
  EXPECT_FALSE(run.placement.is_working(4));
  EXPECT_EQ(run.placement.share(0), 4u);
  EXPECT_EQ(run.placement.share(4), 0u);
  EXPECT_EQ(run.placement.counted(), 4u);
  EXPECT_TRUE(run.placement.is_complete({0, 1, 2, 3}));
  EXPECT_FALSE(run.placement.is_complete({0, 1, 2}));
  EXPECT_FALSE(run.placement.is_complete({0, 1, 2, 4}));
}

TEST(Placement, ALostRankIsNobodyUntilItIsWantedAgain) {
  OneJob run;
  run.lose_rank(1);
  EXPECT_FALSE(run.placement.is_working(1));
  EXPECT_FALSE(run.placement.is_pending(1));
  EXPECT_TRUE(run.placement.is_complete({0, 2, 3}));
  EXPECT_FALSE(run.placement.is_complete({0, 1, 2, 3}));
  run.assign_gpus({0, 1, 2, 3});
  EXPECT_TRUE(run.placement.is_pending(1));
  EXPECT_EQ(run.placement.awaited_seats(), (std::vector<std::uint32_t>{0, 1, 2, 3}));
}

TEST(Placement, AnAssignmentIsAssembledOnceAllThatItNamesAreThere) {
  OneJob run;
  run.lose_rank(3);
  run.assign_gpus({0, 1, 5});
  EXPECT_TRUE(run.placement.is_leaving(2));
  EXPECT_TRUE(run.placement.is_pending(5));
  EXPECT_FALSE(run.placement.is_assembled({0, 1, 2}));
  EXPECT_TRUE(run.placement.is_complete({0, 1, 2}));  // they go on until then
  EXPECT_TRUE(run.placement.is_assembled({0, 1, 2, 5}));
  EXPECT_FALSE(run.placement.is_complete({0, 1, 2, 5}));
}

TEST(Placement, WhoCannotBeStartedIsLeftOut) {
  OneJob run;
  run.lose_rank(3);
  run.assign_gpus({0, 1, 2, 5});
  run.placement.abandon_seat(5);
  EXPECT_FALSE(run.placement.is_pending(5));
  EXPECT_TRUE(run.placement.is_assembled({0, 1, 2}));
  EXPECT_EQ(run.placement.pending_placement().layout.data, 3u);
  run.placement.try_again(5);
  EXPECT_FALSE(run.placement.is_assembled({0, 1, 2}));
}

TEST(Placement, SparesAreTheFirstHealthySeatsThatNothingUses) {
  OneJob run;
  EXPECT_EQ(run.placement.spare_seats(2), (std::vector<std::uint32_t>{4, 5}));
  EXPECT_EQ(run.placement.spare_seats(9), (std::vector<std::uint32_t>{4, 5, 6, 7}));
  EXPECT_TRUE(run.placement.spare_seats(0).empty());
  run.world.apply(PartChanged{{PartKind::gpu, 4}, {.health = Health::lost, .rate = 0}}, 1);
  run.assign_gpus({0, 1, 2, 5});
  EXPECT_EQ(run.placement.spare_seats(2), (std::vector<std::uint32_t>{6, 7}));
}

}  // namespace
}  // namespace orrery::live

#include "policies/placement/consolidated.hpp"

#include <gtest/gtest.h>

#include "tests/policies/placement/free_pool.hpp"

namespace orrery {
namespace {

TEST(ConsolidatedPlacer, BestFitAndTiesToTheLowestNumber) {
  FreePool pool(4, 4);
  pool.leave_free({4, 3, 2, 2});
  EXPECT_EQ(pool.place_job(ConsolidatedPlacer(), 2), (Numbers{10, 11}));
  EXPECT_EQ(pool.place_job(ConsolidatedPlacer(), 1), (Numbers{14}));
  EXPECT_EQ(pool.place_job(ConsolidatedPlacer(), 4), (Numbers{0, 1, 2, 3}));
}

TEST(ConsolidatedPlacer, ASmallJobNeverSpansNodes) {
  FreePool pool(3, 4);
  pool.leave_free({2, 2, 2});
  EXPECT_EQ(pool.place_job(ConsolidatedPlacer(), 3), Numbers{});
  EXPECT_EQ(pool.free_gpus().total(), 6u);
}

TEST(ConsolidatedPlacer, ALargeJobTakesIdleNodesInOrderAndBestFitsTheRest) {
  FreePool pool(5, 4);
  pool.leave_free({4, 3, 4, 2, 4});
  // Nodes 0 and 2 whole, the last GPU beside node 3's, which has the fewest.
  EXPECT_EQ(pool.place_job(ConsolidatedPlacer(), 9), (Numbers{0, 1, 2, 3, 8, 9, 10, 11, 14}));
}

TEST(ConsolidatedPlacer, TheRemainderMayTakeAnIdleNodeButNotATakenOne) {
  FreePool pool(3, 4);
  EXPECT_EQ(pool.place_job(ConsolidatedPlacer(), 6), (Numbers{0, 1, 2, 3, 4, 5}));
  FreePool small(1, 4);
  EXPECT_EQ(small.place_job(ConsolidatedPlacer(), 6), Numbers{});
}

TEST(ConsolidatedPlacer, AllOrNothing) {
  FreePool pool(3, 4);
  pool.leave_free({4, 1, 1});
  EXPECT_EQ(pool.place_job(ConsolidatedPlacer(), 6), Numbers{});  // a whole node, but no pair
  EXPECT_EQ(pool.free_gpus().total(), 6u);
  pool.leave_free({3, 1, 1});
  EXPECT_EQ(pool.place_job(ConsolidatedPlacer(), 5), Numbers{});  // five free, but no whole node
}

}  // namespace
}  // namespace orrery

#include "policies/placement/count.hpp"

#include <gtest/gtest.h>

#include "tests/policies/placement/free_pool.hpp"

namespace orrery {
namespace {

TEST(CountPlacer, TakesTheLowestFreeGpusWhereverTheyAre) {
  FreePool pool(3, 4);
  pool.leave_free({1, 0, 3});
  EXPECT_EQ(pool.place_job(CountPlacer(), 3), (Numbers{3, 9, 10}));
  EXPECT_EQ(pool.free_gpus().total(), 1u);
}

TEST(CountPlacer, FitsUpToTheLastGpuAndNotOneMore) {
  FreePool pool(2, 4);
  pool.leave_free({2, 1});
  EXPECT_EQ(pool.place_job(CountPlacer(), 4), Numbers{});
  EXPECT_EQ(pool.free_gpus().total(), 3u);
  EXPECT_EQ(pool.place_job(CountPlacer(), 3).size(), 3u);
}

}  // namespace
}  // namespace orrery

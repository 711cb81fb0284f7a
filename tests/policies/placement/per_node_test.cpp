#include "policies/placement/per_node.hpp"

#include <gtest/gtest.h>

#include "tests/policies/placement/free_pool.hpp"

namespace orrery {
namespace {

Numbers placed(FreePool& pool, std::uint32_t nodes, std::uint32_t each) {
  JobSpec job;
  job.gpus = nodes * each;
  job.layout = {.tensor = each, .pipeline = nodes};
  Numbers numbers;
  if (const auto gpus = PerNodePlacer().place_job(job, pool.free_gpus())) {
    for (const GpuId gpu : *gpus) numbers.push_back(gpu.value);
  }
  return numbers;
}

TEST(PerNodePlacer, GivesTheSameNumberOnEachNodeAndPrefersNodesWithFewFreeGpus) {
  FreePool pool(4, 4);
  pool.leave_free({4, 2, 1, 2});
  EXPECT_EQ(placed(pool, 2, 2), (Numbers{6, 7, 14, 15}));
  EXPECT_EQ(pool.free_gpus().total(), 5u);
}

TEST(PerNodePlacer, TakesNothingIfOneNodeIsMissing) {
  FreePool pool(3, 4);
  pool.leave_free({3, 2, 3});
  EXPECT_EQ(placed(pool, 3, 3), Numbers{});
  EXPECT_EQ(pool.free_gpus().total(), 8u);
  EXPECT_EQ(placed(pool, 2, 3).size(), 6u);
}

TEST(PerNodePlacer, SeveralNodesAreOfTheSmallestSufficientUnit) {
  FreePool pool(12, 2, 4);
  pool.leave_free({2, 1, 2, 2, 2, 2, 2, 2, 2, 0, 2, 2});
  EXPECT_EQ(placed(pool, 3, 2), (Numbers{0, 1, 4, 5, 6, 7}));
  EXPECT_EQ(placed(pool, 4, 2), (Numbers{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(placed(pool, 1, 1), (Numbers{3}));  // one node: the best fit of all units
}

TEST(PerNodePlacer, AJobLargerThanAUnitSpansAsFewUnitsAsPossible) {
  FreePool pool(12, 2, 4);
  pool.leave_free({2, 2, 0, 0, 2, 2, 2, 0, 2, 2, 2, 2});
  EXPECT_EQ(placed(pool, 5, 2), (Numbers{8, 9, 16, 17, 18, 19, 20, 21, 22, 23}));
}

TEST(PerNodePlacer, ContextRanksAreNodesOfOneUnit) {
  FreePool pool(12, 2, 4);
  pool.leave_free({2, 2, 0, 0, 2, 2, 2, 0, 2, 2, 2, 0});
  JobSpec job;
  job.gpus = 8;
  job.layout = {.tensor = 2, .context = 4};
  EXPECT_FALSE(PerNodePlacer().place_job(job, pool.free_gpus())) << "no unit has four free nodes";
  EXPECT_EQ(pool.free_gpus().total(), 16u);
  job.layout = {.tensor = 2, .context = 2, .pipeline = 2};
  const auto pairs = PerNodePlacer().place_job(job, pool.free_gpus());
  ASSERT_TRUE(pairs) << "two groups of two nodes";
  EXPECT_EQ(pool.free_gpus().total(), 8u);
  FreePool whole(12, 2, 4);
  whole.leave_free({2, 2, 0, 0, 2, 2, 2, 0, 2, 2, 2, 2});
  job.gpus = 6;
  job.layout = {.tensor = 2, .context = 3};
  const auto rack = PerNodePlacer().place_job(job, whole.free_gpus());
  ASSERT_TRUE(rack);
  EXPECT_EQ(*rack, (GpuRuns{{8}, {9}, {10}, {11}, {12}, {13}})) << "the smallest sufficient unit";
}

TEST(PerNodePlacer, AJobOfALogGoesToOneNode) {
  FreePool pool(2, 4);
  pool.leave_free({2, 3});
  EXPECT_EQ(pool.place_job(PerNodePlacer(), 3), (Numbers{5, 6, 7}));
  EXPECT_EQ(pool.place_job(PerNodePlacer(), 3), Numbers{});
}

}  // namespace
}  // namespace orrery

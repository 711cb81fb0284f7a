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

TEST(PerNodePlacer, AJobOfALogGoesToOneNode) {
  FreePool pool(2, 4);
  pool.leave_free({2, 3});
  EXPECT_EQ(pool.place_job(PerNodePlacer(), 3), (Numbers{5, 6, 7}));
  EXPECT_EQ(pool.place_job(PerNodePlacer(), 3), Numbers{});
}

}  // namespace
}  // namespace orrery

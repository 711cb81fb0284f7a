#include "policies/seam/gpu_runs.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace orrery {
namespace {

using Runs = std::vector<GpuRuns::Run>;

Runs runs_of(const GpuRuns& gpus) { return {gpus.runs().begin(), gpus.runs().end()}; }

TEST(GpuRuns, NeighboursAreOneRun) {
  const GpuRuns gpus{{4}, {5}, {6}, {9}, {8}, {9}};
  EXPECT_EQ(runs_of(gpus), (Runs{{4, 3}, {9, 1}, {8, 2}}));
  EXPECT_EQ(gpus.size(), 6u);
  GpuRuns row = GpuRuns::range({0}, 65536);
  row.append_run({65536, 65536});
  row.append_run({7, 0});
  EXPECT_EQ(row.runs().size(), 1u);
  EXPECT_EQ(row.size(), 131072u);
  EXPECT_TRUE(GpuRuns::range({3}, 0).empty());
}

TEST(GpuRuns, ReadsLikeAVector) {
  const GpuRuns gpus{{7}, {2}, {3}};
  EXPECT_EQ(gpus.front(), GpuId{7});
  EXPECT_EQ(gpus[2], GpuId{3});
  EXPECT_TRUE(gpus.contains({2}));
  EXPECT_FALSE(gpus.contains({4}));
  EXPECT_FALSE(gpus.contains({1}));
  EXPECT_EQ(gpus.to_vector(), (std::vector<GpuId>{{7}, {2}, {3}}));
  EXPECT_THROW(gpus[3], Error);
  EXPECT_THROW(GpuRuns()[0], Error);
}

TEST(GpuRuns, ClearedItIsEmptyAndCanBeFilledAgain) {
  GpuRuns gpus = GpuRuns::range({4}, 8);
  gpus.clear();
  EXPECT_TRUE(gpus.empty());
  EXPECT_EQ(gpus, GpuRuns());
  EXPECT_EQ(gpus.begin(), gpus.end());
  gpus.push_back({12});
  EXPECT_EQ(runs_of(gpus), (Runs{{12, 1}}));
}

RC_GTEST_PROP(GpuRunsProperty, HoldsWhatAVectorHolds, ()) {
  const auto values =
      *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, 6));
  std::vector<GpuId> plain;
  for (const std::uint32_t value : values) plain.push_back({value});
  const GpuRuns runs(plain);
  RC_ASSERT(runs.size() == plain.size());
  RC_ASSERT(runs.to_vector() == plain);
  for (std::size_t i = 0; i < plain.size(); ++i) RC_ASSERT(runs[i] == plain[i]);
  for (std::uint32_t gpu = 0; gpu < 7; ++gpu) {
    const bool there = std::find(plain.begin(), plain.end(), GpuId{gpu}) != plain.end();
    RC_ASSERT(runs.contains({gpu}) == there);
  }
  for (std::size_t i = 1; i < runs.runs().size(); ++i) {
    const GpuRuns::Run& before = runs.runs()[i - 1];
    RC_ASSERT(runs.runs()[i].first != before.first + before.count);
  }
}

}  // namespace
}  // namespace orrery

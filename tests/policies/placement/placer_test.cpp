#include "policies/placement/placer.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "tests/policies/placement/free_pool.hpp"

namespace orrery {
namespace {

TEST(Placer, EveryNameMakesItsPlacer) {
  for (const std::string& name : placer_names()) EXPECT_EQ(make_placer(name)->name(), name);
  try {
    make_placer("consolidate");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find("consolidated"), std::string::npos);
  }
}

TEST(FreeGpus, APassRemembersWhatItGaveAway) {
  FreePool pool(2, 4);
  GpuRuns out;
  pool.free_gpus().take_gpus(1, 2, out);
  pool.free_gpus().take_gpus(1, 1, out);
  EXPECT_EQ(out, (GpuRuns{{4}, {5}, {6}}));
  EXPECT_EQ(pool.free_gpus().in_node(1), 1u);
  EXPECT_EQ(pool.free_gpus().total(), 5u);
  pool.free_gpus().refresh_from(pool.state());  // nothing came true: all is free again
  EXPECT_EQ(pool.free_gpus().total(), 8u);
  out.clear();
  pool.free_gpus().take_gpus(1, 1, out);
  EXPECT_EQ(out, GpuRuns::range({4}, 1));
}

TEST(FreeGpus, GpusOfSeveralNodesComeBackTogether) {
  for (const std::uint32_t size : {4u, 72u}) {  // 72: two words of bits for each node
    FreePool pool(3, size);
    const GpuRuns gpus = GpuRuns::range({size - 3}, size + 5);  // of all three nodes
    pool.free_gpus().remove_gpus(gpus);
    EXPECT_EQ(pool.free_gpus().total(), 2 * size - 5);
    EXPECT_EQ(pool.free_gpus().in_node(1), 0u);
    pool.free_gpus().return_gpus(gpus);
    for (std::uint32_t node = 0; node < 3; ++node) {
      EXPECT_EQ(pool.free_gpus().in_node(node), size);
    }
    EXPECT_EQ(pool.place_job(*make_placer("count"), 3 * size).size(), 3 * size);
  }
}

TEST(FreeGpus, TakingMoreThanThereIsIsADefect) {
  FreePool pool(1, 4);
  GpuRuns out;
  EXPECT_THROW(pool.free_gpus().take_gpus(0, 5, out), Error);
}

// Two nodes of two GPUs with ten slices each: GPU n has the slices from 10 n on.
TEST(Placer, APartGoesToTheGpuWithTheLeastSufficientRoom) {
  for (const std::string& name : placer_names()) {
    FreePool pool(2, 2, 0, 10);
    const auto placer = make_placer(name);
    EXPECT_EQ(pool.place_job(*placer, 7).front(), 0u) << name;
    EXPECT_EQ(pool.place_job(*placer, 4).front(), 10u) << "not beside the 7, " << name;
    EXPECT_EQ(pool.place_job(*placer, 3), (Numbers{7, 8, 9})) << "3 are left there, " << name;
    EXPECT_EQ(pool.place_job(*placer, 5), (Numbers{14, 15, 16, 17, 18})) << name;
    EXPECT_EQ(pool.free_gpus().total(), 21u) << name;
    EXPECT_EQ(pool.free_gpus().in_node(0), 0u) << name;
    EXPECT_EQ(pool.free_gpus().total_in_node(0), 1u) << name;
    EXPECT_EQ(pool.place_job(*placer, 20).size(), 20u) << "two whole GPUs, " << name;
    EXPECT_EQ(pool.place_job(*placer, 2), Numbers{}) << "one slice is left, " << name;
    EXPECT_EQ(pool.place_job(*placer, 1), Numbers{19}) << name;
  }
}

TEST(Placer, WholeGpusAreFreeOnes) {
  FreePool pool(1, 3, 0, 4);
  EXPECT_EQ(pool.place_job(*make_placer("count"), 1), Numbers{0});
  EXPECT_EQ(pool.place_job(*make_placer("count"), 12), Numbers{}) << "eleven slices of three GPUs";
  EXPECT_EQ(pool.place_job(*make_placer("count"), 4), (Numbers{4, 5, 6, 7}));
  pool.free_gpus().return_gpus(GpuRuns::range({0}, 1));
  EXPECT_EQ(pool.free_gpus().in_node(0), 2u) << "all slices of the GPU are back";
  GpuRuns all;
  EXPECT_EQ(pool.place_job(*make_placer("count"), 3), (Numbers{0, 1, 2}));
  pool.free_gpus().take_node(0, all);
  EXPECT_EQ(all, (GpuRuns{{8}, {9}, {10}, {11}, {3}}));
  EXPECT_EQ(pool.free_gpus().total(), 0u);
  pool.free_gpus().return_gpus(all);
  EXPECT_EQ(pool.free_gpus().total(), 5u);
}

// Two words of bits for each node, and slices of one GPU in both of them.
RC_GTEST_PROP(FreeGpusProperty, SlicesAreCountedByGpu, (std::uint64_t seed)) {
  constexpr std::uint32_t kNodes = 5, kSize = 3, kSlices = 37;
  Rng rng(seed);
  FreePool pool(kNodes, kSize, 0, kSlices);
  std::vector<std::uint32_t> room(kNodes * kSize, kSlices);
  std::vector<GpuRuns> taken;
  JobSpec job;
  for (int i = 0; i < 200; ++i) {
    if (rng.below(3) == 0 && !taken.empty()) {
      const std::size_t which = rng.below(taken.size());
      for (const GpuId slice : taken[which]) ++room[slice.value / kSlices];
      pool.free_gpus().return_gpus(taken[which]);
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      job.gpus = static_cast<std::uint32_t>(rng.below(2) == 0 ? 1 + rng.below(kSlices - 1)
                                                              : kSlices * (1 + rng.below(3)));
      const auto gpus = make_placer("consolidated")->place_job(job, pool.free_gpus());
      if (!gpus) continue;
      RC_ASSERT(gpus->size() == job.gpus);
      std::set<std::uint32_t> on;
      for (const GpuId slice : *gpus) {
        --room[slice.value / kSlices];
        on.insert(slice.value / kSlices);
      }
      RC_ASSERT(on.size() == std::max(1u, job.gpus / kSlices));
      taken.push_back(*gpus);
    }
    std::uint32_t whole = 0, all = 0;
    for (const std::uint32_t each : room) all += each, whole += each == kSlices ? 1 : 0;
    RC_ASSERT(pool.free_gpus().total() == all);
    RC_ASSERT(pool.free_gpus().whole_gpus() == whole);
  }
}

/// Checks the free GPUs after the begin of a pass, node by node.
void check_fresh(FreePool& pool) {
  const FreeGpus& free = pool.free_gpus();
  std::vector<std::uint32_t> nodes_with(free.gpus_per_node() + 1, 0);
  std::uint32_t first_not_full = free.nodes();
  for (std::uint32_t node = free.nodes(); node-- > 0;) {
    RC_ASSERT(free.in_node(node) == pool.state().free_per_node[node]);
    ++nodes_with[free.in_node(node)];
    if (free.in_node(node) > 0) first_not_full = node;
  }
  RC_ASSERT(free.total() == pool.state().free);
  RC_ASSERT(free.first_not_full() == first_not_full);
  for (std::uint32_t count = 0; count <= free.gpus_per_node(); ++count) {
    RC_ASSERT(free.nodes_with(count) == nodes_with[count]);
  }
}

// More changes between two passes than the state remembers, too.
RC_GTEST_PROP(FreeGpusProperty, ItFollowsWhateverHasChanged, (std::uint64_t seed)) {
  const std::uint32_t nodes = 70, size = seed % 2 == 0 ? 4 : 72;
  Rng rng(seed);
  const auto below = [&rng](std::uint64_t most) {
    return static_cast<std::uint32_t>(rng.below(most));
  };
  FreePool pool(nodes, size);
  for (int pass = 0; pass < 30; ++pass) {
    for (std::uint32_t i = below(below(5) == 0 ? 4000 : 20); i > 0; --i) {
      const bool gpu = below(2) == 0;
      pool.change_health({gpu ? PartKind::gpu : PartKind::node, below(gpu ? nodes * size : nodes)},
                  below(3) == 0 ? Health::ok : Health::lost);
    }
    pool.free_gpus().refresh_from(pool.state());
    check_fresh(pool);
    std::set<std::uint32_t> given;
    for (std::uint32_t i = below(8); i > 0; --i) {
      const std::uint32_t node = below(nodes);
      GpuRuns taken;
      pool.free_gpus().take_gpus(node, below(pool.free_gpus().in_node(node) + 1), taken);
      for (const GpuId gpu : taken) {
        RC_ASSERT(pool.state().is_healthy(gpu, {node}));
        RC_ASSERT(given.insert(gpu.value).second);
      }
      if (below(4) > 0) continue;
      pool.free_gpus().return_gpus(taken);
      for (const GpuId gpu : taken) given.erase(gpu.value);
    }
  }
}

}  // namespace
}  // namespace orrery

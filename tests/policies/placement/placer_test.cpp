#include "policies/placement/placer.hpp"

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

TEST(FreeGpus, TakingMoreThanThereIsIsADefect) {
  FreePool pool(1, 4);
  GpuRuns out;
  EXPECT_THROW(pool.free_gpus().take_gpus(0, 5, out), Error);
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

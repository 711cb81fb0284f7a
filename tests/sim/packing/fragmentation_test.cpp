#include "sim/packing/fragmentation.hpp"

#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

/// The example of the paper's problem: a node with half a GPU left twice serves no pod of a whole.
TEST(Fragmentation, CountsWhatIsFreeAndOfNoUse) {
  const std::vector<Pod> pods{{.name = "half", .cpu_milli = 1000, .gpus = 1, .gpu_milli = 500},
                              {.name = "whole", .cpu_milli = 1000, .gpus = 1, .gpu_milli = 1000}};
  const TypicalPods typical(pods);
  SharedCluster cluster({{"n", 4000, 4096, 2, "T4"}});
  EXPECT_DOUBLE_EQ(typical.fragmented(cluster.nodes()[0]), 0);
  cluster.place_pod(pods[0], 0, {0});
  // Half of the pods need a whole GPU: the half one is of no use to them.
  EXPECT_DOUBLE_EQ(typical.fragmented(cluster.nodes()[0]), 0.5 * 500);
  cluster.place_pod(pods[0], 0, {1});
  EXPECT_DOUBLE_EQ(typical.fragmented(cluster.nodes()[0]), 0.5 * 1000);
  // No pod can use the GPUs without CPU.
  cluster.place_pod({.name = "cpu", .cpu_milli = 2000}, 0, {});
  EXPECT_DOUBLE_EQ(typical.fragmented(cluster.nodes()[0]), 1000);
}

TEST(Fragmentation, FgdFillsTheGpuThatIsBrokenAlready) {
  const std::vector<Pod> pods{{.name = "half", .gpus = 1, .gpu_milli = 500},
                              {.name = "whole", .gpus = 1, .gpu_milli = 1000}};
  SharedCluster cluster({{"a", 1000, 1024, 1, "T4"}, {"b", 1000, 1024, 2, "T4"}});
  FgdPacker fgd(pods);
  cluster.place_pod(pods[0], 1, {1});
  EXPECT_EQ(fgd.pick_place(pods[0], cluster), (Pick{1, {1}}));
  cluster.place_pod(pods[0], 1, {1});
  EXPECT_EQ(fgd.pick_place(pods[1], cluster), (Pick{0, {0}}));
}

}  // namespace
}  // namespace orrery::sim

#include "sim/packing/packer.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "tests/sim/packing/naive_packing.hpp"

namespace orrery::sim {
namespace {

std::vector<NodeRecord> random_nodes(Rng& rng) {
  std::vector<NodeRecord> nodes;
  for (std::uint64_t i = 0, count = 1 + rng.below(5); i < count; ++i) {
    nodes.push_back({.name = std::to_string(i),
                     .cpu_milli = std::int64_t(8000 * (1 + rng.below(8))),
                     .memory_mib = std::int64_t(4096 * (1 + rng.below(8))),
                     .gpus = std::uint32_t(rng.below(9)),
                     .model = rng.below(2) == 0 ? "T4" : "G2"});
  }
  return nodes;
}

std::vector<Pod> random_pods(Rng& rng) {
  std::vector<Pod> pods;
  for (std::uint64_t i = 0, count = 1 + rng.below(40); i < count; ++i) {
    Pod pod{.name = std::to_string(i),
            .cpu_milli = std::int64_t(1000 * rng.below(9)),
            .memory_mib = std::int64_t(1024 * rng.below(5))};
    pod.gpus = std::uint32_t(rng.below(4));
    if (pod.gpus > 0) pod.gpu_milli = pod.gpus > 1 ? 1000 : std::uint32_t(125 * (1 + rng.below(8)));
    if (pod.gpus > 0 && rng.below(4) == 0) pod.models = {"T4"};
    pods.push_back(pod);
  }
  return pods;
}

RC_GTEST_PROP(Packer, AgreesWithANaiveProgram, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const std::vector<NodeRecord> nodes = random_nodes(rng);
  const std::vector<Pod> pods = random_pods(rng);
  for (const std::string policy : {"dot-product", "best-fit", "fgd"}) {
    SharedCluster cluster(nodes);
    const auto packer = make_packer(policy, pods, Rng(1));
    const NaivePacking naive{policy, pods};
    for (std::size_t i = 0; i < 3 * pods.size(); ++i) {
      const Pod& pod = pods[i % pods.size()];
      const auto pick = packer->pick_place(pod, cluster);
      RC_ASSERT(pick == naive.pick_place(pod, cluster.nodes()));
      if (pick) cluster.place_pod(pod, pick->node, pick->gpus);
    }
  }
}

TEST(Packer, RandomTakesAnyNodeAndAnyGpuThatSuffices) {
  const std::vector<NodeRecord> nodes{{"a", 8000, 8192, 2, "T4"}, {"b", 8000, 8192, 0, ""},
                                      {"c", 8000, 8192, 1, "G2"}};
  const auto packer = make_packer("random", {}, Rng(7));
  const SharedCluster empty(nodes);
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> picks;
  for (int i = 0; i < 400; ++i) {
    const auto pick = packer->pick_place({.name = "p", .gpus = 1, .gpu_milli = 500}, empty);
    ASSERT_TRUE(pick);
    ++picks[{pick->node, pick->gpus.at(0)}];
  }
  EXPECT_EQ(picks.size(), 3u);  // never on b
  EXPECT_NEAR((picks[{2, 0}]), 200, 60);
  EXPECT_NEAR((picks[{0, 0}]), 100, 50);
}

TEST(Packer, ATightGpuIsTakenBeforeAnIdleOne) {
  SharedCluster cluster({{"a", 64000, 65536, 4, "T4"}});
  cluster.place_pod({.name = "p", .gpus = 1, .gpu_milli = 400}, 0, {2});
  cluster.place_pod({.name = "q", .gpus = 1, .gpu_milli = 700}, 0, {1});
  EXPECT_EQ(tightest_gpus({.name = "r", .gpus = 1, .gpu_milli = 500}, cluster.nodes()[0]),
            (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(tightest_gpus({.name = "s", .gpus = 2, .gpu_milli = 1000}, cluster.nodes()[0]),
            (std::vector<std::uint32_t>{0, 3}));
  EXPECT_EQ(cluster.gpu_milli_left(), 2900u);
}

TEST(Packer, WhatDoesNotFitIsRefused) {
  SharedCluster cluster({{"a", 1000, 1024, 1, "T4"}});
  const Pod pod{.name = "p", .cpu_milli = 2000, .gpus = 1, .gpu_milli = 1000};
  EXPECT_FALSE(cluster.fits(pod, 0));
  EXPECT_FALSE(cluster.fits({.name = "q", .gpus = 1, .gpu_milli = 1, .models = {"G2"}}, 0));
  EXPECT_THROW(cluster.place_pod(pod, 0, {0}), Error);
  EXPECT_THROW(make_packer("best-fitt", {}, Rng(1)), Error);
}

}  // namespace
}  // namespace orrery::sim

// Collectives as one wide flow per phase against the same algorithms message by message: equal
// where nothing else is under way and all ranks are alike, within 1% at 1 GiB otherwise.
#include <cmath>

#include <gtest/gtest.h>

#include "sim/engine/simgrid_engine.hpp"
#include "tests/sim/message_oracle.hpp"
#include "tests/sim/small_cluster.hpp"

namespace orrery::testing {
namespace {

using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;

constexpr double kSize = 1 << 30;
/// Tolerance for the rounding of the simulation's clock and byte counts.
constexpr double kExact = 1e-6;

class Oracle : public ::testing::Test {
 protected:
  explicit Oracle(const SmallCluster& what = {.nodes = 8, .gpus_per_node = 1})
      : cluster_(small_cluster(what)), engine_(1, cluster_.links()), wire_(engine_, cluster_) {}

  double fluid(Kind kind, Algorithm algorithm, const std::vector<estimates::GpuGroup>& groups,
               double size = kSize) {
    const estimates::CollectiveSchedule schedule =
        estimates::collective_schedule(cluster_, kind, algorithm, groups);
    EXPECT_EQ(schedule.algorithm, algorithm);
    return wire_.run(schedule, size);
  }
  static void expect_close(double fluid, double steps, double tolerance) {
    EXPECT_NEAR(fluid / steps, 1, tolerance) << fluid << " s and " << steps << " s";
  }

  Cluster cluster_;
  sim::SimGridEngine engine_;
  Wire wire_;
};

TEST_F(Oracle, Ring) {
  expect_close(fluid(Kind::all_reduce, Algorithm::ring, {gpus(8)}),
               wire_.run(ring_messages(cluster_, gpus(8), kSize, 2)), kExact);
  expect_close(fluid(Kind::all_gather, Algorithm::ring, {gpus(6)}),
               wire_.run(ring_messages(cluster_, gpus(6), kSize, 1)), kExact);
}

TEST_F(Oracle, RingBesideAnotherFlow) {
  for (const double share : {0.25, 0.5, 1.0}) {
    const double alone = fluid(Kind::all_reduce, Algorithm::ring, {gpus(8)});
    Wire both(engine_, cluster_);
    both.beside({2}, {3}, share * alone * 50e9 / 2);
    const estimates::CollectiveSchedule schedule =
        estimates::collective_schedule(cluster_, Kind::all_reduce, Algorithm::ring, {gpus(8)});
    const double wide = both.run(schedule, kSize);
    EXPECT_GT(wide, alone * (1 + share / 3)) << "the other flow counts";
    expect_close(wide, both.run(ring_messages(cluster_, gpus(8), kSize, 2)), 0.01);
  }
}

TEST_F(Oracle, DoubleBinaryTreeInAPipeline) {
  expect_close(fluid(Kind::all_reduce, Algorithm::tree, {gpus(8)}),
               wire_.run(tree_messages(gpus(8), kSize, 1024)), 0.01);
}

TEST_F(Oracle, HalvingDoubling) {
  expect_close(fluid(Kind::all_reduce, Algorithm::halving_doubling, {gpus(8)}),
               wire_.run(halving_doubling_messages(gpus(8), kSize)), kExact);
}

TEST_F(Oracle, Direct) {
  expect_close(fluid(Kind::all_to_all, Algorithm::direct, {gpus(8)}),
               wire_.run(direct_messages(gpus(8), kSize / 8, 1)), kExact);
  expect_close(fluid(Kind::all_reduce, Algorithm::direct, {gpus(8)}),
               wire_.run(direct_messages(gpus(8), kSize / 8, 2)), kExact);
}

class NodesOracle : public Oracle {
 protected:
  NodesOracle() : Oracle({.nodes = 4, .gpus_per_node = 4, .nodes_per_unit = 2}) {}
  estimates::GpuGroup node(std::uint32_t of) const {
    return {{4 * of}, {4 * of + 1}, {4 * of + 2}, {4 * of + 3}};
  }
  estimates::GpuGroup rail(std::uint32_t of) const { return {{of}, {4 + of}, {8 + of}, {12 + of}}; }
};

TEST_F(NodesOracle, RingOnEveryRail) {
  expect_close(fluid(Kind::all_reduce, Algorithm::ring, {gpus(16)}),
               wire_.run(ring_messages(cluster_, gpus(16), kSize, 2)), 0.01);
}

TEST_F(NodesOracle, GroupsBesideOneAnother) {
  Messages all;
  std::vector<Messages> rails;
  std::vector<estimates::GpuGroup> groups;
  for (std::uint32_t of = 0; of < 4; ++of) {
    groups.push_back(rail(of));
    rails.push_back(ring_messages(cluster_, rail(of), kSize, 2));
  }
  follow(all, rails);
  expect_close(fluid(Kind::all_reduce, Algorithm::ring, groups), wire_.run(all), kExact);
}

/// Chunk by chunk over three levels, each level one chunk at a time: the first and the last chunk
/// have the wire to themselves while a pipeline fills and drains.
TEST_F(NodesOracle, Hierarchical) {
  constexpr int kChunks = 16;
  const double size = kSize / kChunks;
  std::vector<Messages> inside, rails;
  for (std::uint32_t of = 0; of < 4; ++of) {
    inside.push_back(ring_messages(cluster_, node(of), size, 1));
    rails.push_back(ring_messages(cluster_, rail(of), size / 4, 2));
  }
  Messages all;
  std::vector<std::uint32_t> level[3];  // the messages of each level's last chunk
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    std::vector<std::uint32_t> below;
    for (int at = 0; at < 3; ++at) {
      std::vector<std::uint32_t> before = below;
      before.insert(before.end(), level[at].begin(), level[at].end());
      level[at] = below = append(all, at == 1 ? rails : inside, before);
    }
  }
  const double chunked = wire_.run(all);
  const double whole = fluid(Kind::all_reduce, Algorithm::hierarchical, {gpus(16)});
  EXPECT_LE(whole, chunked * (1 + kExact));
  EXPECT_NEAR(chunked / whole, 1, 3.0 / kChunks);
}

TEST_F(NodesOracle, HierarchicalAllToAll) {
  Messages all;
  std::vector<Messages> inside, rails;
  for (std::uint32_t of = 0; of < 4; ++of) {
    inside.push_back(direct_messages(node(of), kSize / 4, 1));
    rails.push_back(direct_messages(rail(of), kSize / 4, 1));
  }
  follow(all, inside);
  follow(all, rails);
  expect_close(fluid(Kind::all_to_all, Algorithm::hierarchical, {gpus(16)}), wire_.run(all),
               0.01);
}

TEST_F(NodesOracle, DirectOverRailsAndSpines) {
  expect_close(fluid(Kind::all_to_all, Algorithm::direct, {gpus(16)}),
               wire_.run(direct_messages(gpus(16), kSize / 16, 1)), 0.01);
}

}  // namespace
}  // namespace orrery::testing

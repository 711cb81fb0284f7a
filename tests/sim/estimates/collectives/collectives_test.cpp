#include "sim/estimates/collectives/collectives.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/sim/small_cluster.hpp"

namespace orrery::estimates {
namespace {

using testing::gpus;
using testing::ideal;
using testing::small_cluster;
using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;

constexpr double kInside = 450e9, kBetween = 50e9;  // bytes per second
constexpr double kNear = 1e-6, kFar = 2e-6;         // seconds

double time(const Cluster& cluster, Kind kind, Algorithm algorithm,
            const std::vector<GpuGroup>& groups, double size) {
  const CollectiveSchedule schedule = collective_schedule(cluster, kind, algorithm, groups);
  EXPECT_EQ(schedule.algorithm, algorithm);
  return uncontended_time(cluster, ideal(), schedule, {size}).value;
}

void expect_equal(double value, double formula) {
  EXPECT_LE(std::abs(value / formula - 1), 1e-9) << value << " and not " << formula;
}

// One GPU a node on one switch: the textbook's n ranks with one port each of rate B.
class Textbook : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  double time(Kind kind, Algorithm algorithm) const {
    const Cluster cluster = small_cluster({.nodes = 64, .gpus_per_node = 1, .flat = true});
    return estimates::time(cluster, kind, algorithm, {gpus(GetParam())}, kSize);
  }
  static constexpr double kSize = 1 << 30;
  const double n_ = GetParam();
  const double log2_ = std::log2(n_);
  const double transfer_ = kSize / kBetween;
};

// Patarasuk and Yuan 2009: 2 (n - 1) rounds, 2 (n - 1) / n of the buffer over each edge.
TEST_P(Textbook, Ring) {
  const double once = (n_ - 1) / n_ * transfer_ + (n_ - 1) * kFar;
  expect_equal(time(Kind::all_reduce, Algorithm::ring), 2 * once);
  expect_equal(time(Kind::reduce_scatter, Algorithm::ring), once);
  expect_equal(time(Kind::all_gather, Algorithm::ring), once);
  // In a pipeline, all of it over each edge.
  expect_equal(time(Kind::broadcast, Algorithm::ring), transfer_ + (n_ - 1) * kFar);
}

// Thakur, Rabenseifner and Gropp 2005, section 4.5.
TEST_P(Textbook, HalvingDoubling) {
  if (std::exp2(std::round(log2_)) != n_) GTEST_SKIP() << "powers of two only";
  const double once = (n_ - 1) / n_ * transfer_ + log2_ * kFar;
  expect_equal(time(Kind::all_reduce, Algorithm::halving_doubling), 2 * once);
  expect_equal(time(Kind::reduce_scatter, Algorithm::halving_doubling), once);
  expect_equal(time(Kind::all_gather, Algorithm::halving_doubling), once);
}

// Sanders, Speck and Traeff 2009: an inner node of one tree, a leaf of the other, sends four
// halves; with two ranks only two, with three at most three.
TEST_P(Textbook, DoubleBinaryTree) {
  const double halves = n_ == 2 ? 2 : n_ == 3 ? 3 : 4;
  const double height = std::ceil(log2_);
  expect_equal(time(Kind::all_reduce, Algorithm::tree),
               halves / 2 * transfer_ + 2 * height * kFar);
}

// Bruck et al. 1997: everybody to everybody in one round.
TEST_P(Textbook, Direct) {
  const double once = (n_ - 1) / n_ * transfer_ + kFar;
  expect_equal(time(Kind::all_to_all, Algorithm::direct), once);
  expect_equal(time(Kind::all_gather, Algorithm::direct), once);
  expect_equal(time(Kind::all_reduce, Algorithm::direct), 2 * once);
  expect_equal(time(Kind::broadcast, Algorithm::direct), (n_ - 1) * transfer_ + kFar);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Textbook, ::testing::Values(2, 3, 4, 5, 6, 8, 13, 16, 32, 64));

TEST(Collectives, RanksBeyondAPowerOfTwoFoldIntoTheirNeighbours) {
  const Cluster cluster = small_cluster({.nodes = 8, .gpus_per_node = 1, .flat = true});
  const double size = 1e9, transfer = size / kBetween;
  expect_equal(time(cluster, Kind::all_reduce, Algorithm::halving_doubling, {gpus(6)}, size),
               2 * transfer + 2 * kFar + 2 * (0.75 * transfer + 2 * kFar));
  EXPECT_EQ(collective_schedule(cluster, Kind::all_gather, Algorithm::halving_doubling, {gpus(6)})
                .algorithm,
            Algorithm::ring);
}

// Inside 7/8 of the buffer over NVLink, beside that 3/4 of an eighth over each NIC: the longer of
// the two, since chunks go on at both levels at once, and the rounds of both.
TEST(Collectives, HierarchicalOverlapsItsLevels) {
  const Cluster cluster = small_cluster({.nodes = 4, .gpus_per_node = 8});
  const double size = 1e9, rounds = 7 * kNear + 3 * kFar;
  const double bytes = std::max(7.0 / 8 * size / kInside, 3.0 / 4 * size / 8 / kBetween);
  const auto hierarchical = [&](Kind kind) {
    return time(cluster, kind, Algorithm::hierarchical, {gpus(32)}, size);
  };
  expect_equal(hierarchical(Kind::all_reduce), 2 * bytes + 2 * rounds);
  expect_equal(hierarchical(Kind::reduce_scatter), bytes + rounds);
  expect_equal(hierarchical(Kind::all_gather), bytes + rounds);
  // The root also scatters: 7/8 more over its own link, at most.
  const double sent = hierarchical(Kind::broadcast) - kNear - rounds;
  EXPECT_GE(sent, std::max(7.0 / 8 * size / kInside, size / 8 / kBetween) * (1 - 1e-9));
  EXPECT_LE(sent, (7.0 / 8 + 7.0 / 8) * size / kInside + size / 8 / kBetween);
  expect_equal(hierarchical(Kind::all_to_all),
               7.0 / 8 * size / kInside + kNear + 3.0 / 4 * size / kBetween + kFar);
}

// 64 GPUs, 1 GiB: only the load of the NICs determines the time.
TEST(Collectives, HierarchicalIsAsFastAsTheNarrowestLevel) {
  const Cluster cluster = small_cluster({.nodes = 8, .gpus_per_node = 8});
  const double size = 1ull << 30;
  const double inside = 2 * 7.0 / 8 * size / kInside, rails = 2 * 7.0 / 8 * size / 8 / kBetween;
  const double found = time(cluster, Kind::all_reduce, Algorithm::hierarchical, {gpus(64)}, size);
  EXPECT_NEAR(found, std::max(inside, rails) + 14 * kNear + 14 * kFar, 1e-9);
  // Odd sizes are carried out in parts that come near to it.
  const Cluster odd = small_cluster({.nodes = 23, .gpus_per_node = 8});
  const double of_23 = time(odd, Kind::all_reduce, Algorithm::hierarchical, {gpus(184)}, size);
  const double bound = std::max(inside, 2 * 22.0 / 23 * size / 8 / kBetween);
  EXPECT_NEAR(of_23 / (bound + 14 * kNear + 44 * kFar), 1, 0.005);
}

// The rings of 8 channels share the NICs: 2 (n - 1) / n of an eighth each; inside, each GPU's link
// carries 7 of the 8 channels.
TEST(Collectives, RingOverNodesUsesEveryRail) {
  const Cluster cluster = small_cluster({.nodes = 4, .gpus_per_node = 8});
  const double size = 1e9, rounds = 2 * 31;
  const double latency = (28 * kNear + 4 * kFar) / 32;
  expect_equal(time(cluster, Kind::all_reduce, Algorithm::ring, {gpus(32)}, size),
               rounds / 32 / 8 * size / kBetween + rounds * latency);
}

TEST(Collectives, SwitchesAddUp) {
  const double size = 1e9;
  const Cluster one = small_cluster({.nodes = 1, .gpus_per_node = 8, .nvls = true});
  expect_equal(time(one, Kind::all_reduce, Algorithm::nvls, {gpus(8)}, size),
               9.0 / 8 * size / kInside + 2 * kNear);
  expect_equal(time(one, Kind::all_gather, Algorithm::nvls, {gpus(8)}, size),
               size / kInside + kNear);
  // The trees' four halves are two in two nodes; the fabric's switches need half of that.
  const Cluster two = small_cluster({.nodes = 2, .gpus_per_node = 8, .nvls = true});
  expect_equal(time(two, Kind::all_reduce, Algorithm::nvls, {gpus(16)}, size),
               size / 8 / kBetween + 2 * (kNear + kFar));
  const Cluster four = small_cluster({.nodes = 4, .gpus_per_node = 8, .nvls = true});
  expect_equal(time(four, Kind::all_reduce, Algorithm::nvls, {gpus(32)}, size),
               2 * size / 8 / kBetween + 2 * (kNear + 2 * kFar));
  const Cluster sharp =
      small_cluster({.nodes = 4, .gpus_per_node = 8, .nvls = true, .in_network = true});
  expect_equal(time(sharp, Kind::all_reduce, Algorithm::nvls, {gpus(32)}, size),
               9.0 / 8 * size / kInside + 2 * (kNear + kFar / 2));
  const Cluster without = small_cluster({.nodes = 1, .gpus_per_node = 8});
  EXPECT_EQ(collective_schedule(without, Kind::all_reduce, Algorithm::nvls, {gpus(8)}).algorithm,
            Algorithm::ring)
      << "an older switch";
}

TEST(Collectives, GroupsOfOneScheduleRunBesideOneAnother) {
  const Cluster cluster = small_cluster({.nodes = 4, .gpus_per_node = 4});
  std::vector<GpuGroup> rails;
  for (std::uint32_t rail = 0; rail < 4; ++rail) {
    rails.push_back({{rail}, {4 + rail}, {8 + rail}, {12 + rail}});
  }
  for (const Algorithm algorithm :
       {Algorithm::ring, Algorithm::tree, Algorithm::direct, Algorithm::halving_doubling}) {
    expect_equal(time(cluster, Kind::all_reduce, algorithm, rails, 1e9),
                 time(cluster, Kind::all_reduce, algorithm, {rails[0]}, 1e9));
  }
}

TEST(Collectives, WhatCannotBeDoneFallsBackByName) {
  const Cluster cluster = small_cluster({.nodes = 4, .gpus_per_node = 4});
  const auto done = [&](Kind kind, Algorithm algorithm, const GpuGroup& group) {
    return collective_schedule(cluster, kind, algorithm, {group}).algorithm;
  };
  EXPECT_EQ(done(Kind::all_reduce, Algorithm::hierarchical, {{0}, {1}, {4}}), Algorithm::ring);
  EXPECT_EQ(done(Kind::all_gather, Algorithm::tree, gpus(16)), Algorithm::ring);
  EXPECT_EQ(done(Kind::all_to_all, Algorithm::ring, gpus(16)), Algorithm::direct);
  EXPECT_EQ(done(Kind::send_receive, Algorithm::tree, {{0}, {4}}), Algorithm::direct);
}

// Few bytes: the fewest rounds. Many: the fewest bytes over the NICs.
TEST(Collectives, TheCheapestIsChosenBySize) {
  const Cluster cluster = small_cluster({.nodes = 64, .gpus_per_node = 1, .flat = true});
  const auto choose = [&](Kind kind, double size) {
    return choose_algorithm(cluster, ideal(), kind, {gpus(64)}, {size});
  };
  EXPECT_EQ(choose(Kind::all_reduce, 1e3), Algorithm::direct);
  EXPECT_EQ(choose(Kind::all_to_all, 1e9), Algorithm::direct);
  EXPECT_EQ(choose(Kind::broadcast, 1e3), Algorithm::direct);
  EXPECT_EQ(choose(Kind::broadcast, 1e9), Algorithm::tree);
}

TEST(Collectives, RefusesGroupsItCannotServe) {
  const Cluster cluster = small_cluster({.nodes = 4, .gpus_per_node = 4});
  const auto make = [&](const std::vector<GpuGroup>& groups) {
    return collective_schedule(cluster, Kind::all_reduce, Algorithm::ring, groups);
  };
  EXPECT_THROW(make({{}}), Error);
  EXPECT_THROW(make({gpus(2), gpus(3)}), Error);
  EXPECT_THROW(make({{{0}, {16}}}), Error);
  EXPECT_TRUE(make({gpus(1)}).phases.empty());
}

}  // namespace
}  // namespace orrery::estimates

// Probes that every network simulator must get right: 1 GiB messages, 64 ranks, 50 GiB/s links,
// 450 GiB/s inside a node of 8. Expected are the times that physics allows.
#include <gtest/gtest.h>

#include "sim/engine/simgrid_engine.hpp"
#include "tests/sim/message_oracle.hpp"

namespace orrery::testing {
namespace {

constexpr double kGib = 1 << 30;
constexpr double kNear = kGib / (450 * kGib), kFar = kGib / (50 * kGib);  // seconds a message

Cluster probe_cluster(FabricKind fabric, std::uint32_t gpus_per_node) {
  GpuModel gpu{.name = "H100", .memory = {80e9}, .memory_bandwidth = {1e12}, .fp32 = {1e13},
               .tf32 = {}, .bf16 = {1e14}, .fp8 = {}, .fp4 = {}, .nvlink = {450 * kGib},
               .pcie = {64e9}, .idle_power = {50}, .max_power = {700}};
  return Cluster(gpu,
                 {.nodes = 64 / gpus_per_node, .gpus_per_node = gpus_per_node,
                  .nics_per_node = gpus_per_node, .nodes_per_unit = 4, .spines = 1,
                  .nic_bandwidth = {50 * kGib}, .spine_link_bandwidth = {50 * kGib},
                  .nvlink_latency = {0}, .nic_latency = {0}, .hop_latency = {0},
                  .host_power = {}, .fabric = fabric},
                 {});
}

class Probe : public ::testing::Test {
 protected:
  void on(FabricKind fabric, std::uint32_t gpus_per_node) {
    cluster_ = std::make_unique<Cluster>(probe_cluster(fabric, gpus_per_node));
    if (engine_ == nullptr) engine_ = std::make_unique<sim::SimGridEngine>(1, cluster_->links());
  }
  void two_levels() { on(FabricKind::flat, 8); }

  double time(const Messages& messages) { return Wire(*engine_, *cluster_).run(messages); }
  double send(std::uint32_t from, std::uint32_t to) { return time({{{from}, {to}, kGib}}); }
  static void expect_time(double value, double physics) {
    EXPECT_NEAR(value / physics, 1, 1e-6) << value << " s, not " << physics << " s";
  }

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<sim::SimGridEngine> engine_;
};

TEST_F(Probe, SameNodeGoesOverNvlink) {
  two_levels();
  expect_time(send(0, 1), kNear);
}

TEST_F(Probe, OtherNodeSameLocalIdGoesOverTheNics) {
  two_levels();
  expect_time(send(0, 8), kFar);
}

TEST_F(Probe, OtherNodeOtherLocalIdIsNoFaster) {
  two_levels();
  expect_time(send(0, 9), kFar);
}

TEST_F(Probe, OtherNodeOtherLocalIdOverARelay) {
  on(FabricKind::fat_tree, 8);
  expect_time(send(0, 9), kFar);
  expect_time(send(0, 33), kFar);
}

TEST_F(Probe, IncastSharesTheReceiver) {
  on(FabricKind::flat, 1);
  Messages incast;
  for (std::uint32_t from = 1; from <= 4; ++from) incast.push_back({{from}, {0}, kGib});
  expect_time(time(incast), 4 * kFar);
}

// Five hops cut-through are one transfer time; four shared links make it two.
TEST_F(Probe, RingIsCutThroughAndShared) {
  on(FabricKind::ring, 1);
  expect_time(send(0, 5), kFar);
  expect_time(time({{{0}, {5}, kGib}, {{1}, {6}, kGib}}), 2 * kFar);
}

// Cut into chunks that are sent at once or one after another: never beyond the bandwidth bound.
TEST_F(Probe, ChunksAreNoFasterThanTheBandwidthBound) {
  on(FabricKind::flat, 1);
  estimates::GpuGroup all;
  for (std::uint32_t gpu = 0; gpu < 64; ++gpu) all.push_back({gpu});
  const double bound = 2.0 * 63 / 64 * kFar;
  for (const int chunks : {1, 2, 4}) {
    Messages sent;
    follow(sent, std::vector<Messages>(static_cast<std::size_t>(chunks),
                                       ring_messages(*cluster_, all, kGib / chunks, 2)));
    const double took = time(sent);
    EXPECT_GE(took, bound * (1 - 1e-6)) << chunks << " chunks";
    EXPECT_LE(took, bound * 1.001) << chunks << " chunks";
  }
}

TEST_F(Probe, TwoJobsOnOneSpineGetHalfEach) {
  on(FabricKind::fat_tree, 1);  // units of 4 nodes, one spine
  expect_time(send(0, 4), kFar);
  const Messages both = {{{0}, {4}, kGib}, {{1}, {5}, kGib}};
  expect_time(time(both), 2 * kFar);
  expect_time(time({{{0}, {4}, kGib}, {{1}, {2}, kGib}}), kFar);
}

// Groups of one GPU per node: the NICs bind them, not NVLink, and eight groups use eight NICs.
TEST_F(Probe, StridedGroupsLeaveTheNode) {
  two_levels();
  std::vector<estimates::GpuGroup> strided(8);
  for (std::uint32_t gpu = 0; gpu < 64; ++gpu) strided[gpu % 8].push_back({gpu});
  const double bound = 2.0 * 7 / 8 * kFar;
  std::vector<Messages> rings;
  for (const estimates::GpuGroup& group : strided) {
    rings.push_back(ring_messages(*cluster_, group, kGib, 2));
  }
  Messages all;
  follow(all, rings);
  expect_time(time(all), bound);
  const estimates::CollectiveSchedule wide = estimates::collective_schedule(
      *cluster_, CollectiveKind::all_reduce, CollectiveAlgorithm::ring, strided);
  expect_time(Wire(*engine_, *cluster_).run(wide, kGib), bound);
}

}  // namespace
}  // namespace orrery::testing

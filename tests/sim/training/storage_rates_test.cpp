// Rates of a job's traffic with the shared storage against filling by hand.
#include "sim/training/storage_rates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

using testing::LoneJob;

constexpr double kAll = std::numeric_limits<double>::infinity();

SharedStorage storage(double bandwidth, double node_bandwidth = 0) {
  SharedStorage storage;
  storage.set_bandwidth(bandwidth);
  if (node_bandwidth > 0) storage.set_node_bandwidth(node_bandwidth);
  return storage;
}

/// One flow of the filling by hand: it crosses the link of its node, and that of the file system.
struct Flow {
  std::size_t node = 0;
  double wanted = 0, rate = 0;
  bool writes = false, stopped = false;
};

/// Raises the rates of all flows together until each flow has its wanted rate or crosses a full
/// link.
void fill(std::vector<Flow>& flows, std::size_t nodes, double bandwidth, double node_bandwidth) {
  for (;;) {
    double all = bandwidth;
    std::vector<double> left(nodes, node_bandwidth > 0 ? node_bandwidth : kAll);
    std::vector<double> rising(nodes, 0);
    double total = 0;
    for (const Flow& each : flows) {
      all -= each.rate;
      left[each.node] -= each.rate;
      if (each.stopped) continue;
      ++total;
      ++rising[each.node];
    }
    if (total == 0) return;
    double rise = all / total;
    for (const Flow& each : flows) {
      if (each.stopped) continue;
      rise = std::min({rise, each.wanted - each.rate, left[each.node] / rising[each.node]});
    }
    for (Flow& each : flows) {
      if (each.stopped) continue;
      const double room = 1e-9 * bandwidth;
      const bool full = left[each.node] - rise * rising[each.node] < room ||
                        all - rise * total < room;
      each.rate += rise;
      each.stopped = full || each.wanted - each.rate < 1e-9 * each.wanted;
    }
  }
}

TEST(StorageRates, AWriterTakesWhatAReaderThatWantsLessThanHalfLeaves) {
  const std::vector<StorageNodes> one{{.nodes = 1, .writers = 1, .readers = 1}};
  const StorageRates rates = storage_rates(storage(10), 1, one, {.write = kAll, .read = 2});
  EXPECT_DOUBLE_EQ(rates.write, 8);
  EXPECT_DOUBLE_EQ(rates.read, 2);
  const StorageRates half = storage_rates(storage(10), 0.5, one, {.write = kAll, .read = 4});
  EXPECT_DOUBLE_EQ(half.write, 2.5);
  EXPECT_DOUBLE_EQ(half.read, 2.5);
  const StorageRates alone = storage_rates(storage(10, 6), 1, one, {.write = kAll, .read = 0});
  EXPECT_DOUBLE_EQ(alone.write, 6) << "the link of the node";
  EXPECT_EQ(alone.read, 0);
}

TEST(StorageRates, RatesAreThoseOfFillingByHand) {
  Rng rng(29);
  for (int i = 0; i < 2000; ++i) {
    std::vector<StorageNodes> nodes;
    std::vector<Flow> flows;
    const double wanted = rng.uniform() < 0.2 ? 0 : std::exp(4 * rng.uniform());
    const bool writes = rng.uniform() < 0.8;
    std::size_t node = 0;
    for (std::uint64_t kind = 0; kind < 1 + rng.below(3); ++kind) {
      StorageNodes some{.nodes = static_cast<std::uint32_t>(1 + rng.below(3)),
                        .writers = static_cast<std::uint32_t>(1 + rng.below(8))};
      some.readers = static_cast<std::uint32_t>(rng.below(some.writers + 1));
      nodes.push_back(some);
      for (std::uint32_t j = 0; j < some.nodes; ++j, ++node) {
        for (std::uint32_t k = 0; k < some.writers && writes; ++k) {
          flows.push_back({.node = node, .wanted = kAll, .writes = true});
        }
        for (std::uint32_t k = 0; k < some.readers && wanted > 0; ++k) {
          flows.push_back({.node = node, .wanted = wanted});
        }
      }
    }
    const double bandwidth = 10 * std::exp(5 * rng.uniform());
    const double link = rng.uniform() < 0.3 ? 0 : 5 * std::exp(4 * rng.uniform());
    fill(flows, node, bandwidth, link);
    StorageRates expected{kAll, kAll};
    for (const Flow& each : flows) {
      double& slowest = each.writes ? expected.write : expected.read;
      slowest = std::min(slowest, each.rate);
    }
    const StorageRates rates =
        storage_rates(storage(bandwidth, link), 1, nodes, {writes ? kAll : 0, wanted});
    const auto near = [&](double rate, double by_hand) {
      EXPECT_NEAR(rate, by_hand == kAll ? 0 : by_hand, 1e-6 * (1 + rate)) << "case " << i;
    };
    near(rates.write, expected.write);
    near(rates.read, expected.read);
  }
}

TEST(StorageRates, NodesWithEqualNumbersOfRanksCountTogether) {
  LoneJob job({}, {}, 12);  // 8 and 4 ranks on two nodes
  const std::vector<StorageNodes>& nodes = job.state().fit().storage_nodes();
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].nodes, 1u);
  EXPECT_EQ(nodes[0].writers, 4u);
  EXPECT_EQ(nodes[1].writers, 8u);
  EXPECT_EQ(nodes[1].readers, 8u);
}

}  // namespace
}  // namespace orrery::sim

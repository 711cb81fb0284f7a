#include "sim/estimates/collectives/protocols.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/sim/small_cluster.hpp"

namespace orrery::estimates {
namespace {

using testing::gpus;
using testing::small_cluster;
using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;

PricedSchedule priced(const Cluster& cluster, const CostProfile& profile, Algorithm algorithm,
                      std::uint32_t ranks, double size) {
  return price_protocols(
      cluster, profile, Kind::all_reduce,
      collective_schedule(cluster, Kind::all_reduce, algorithm, {gpus(ranks)}), {size});
}

TEST(Protocols, WithoutCoefficientsTheScheduleStays) {
  const Cluster cluster = small_cluster({.nodes = 2, .gpus_per_node = 4});
  const CollectiveSchedule bare =
      collective_schedule(cluster, Kind::all_reduce, Algorithm::ring, {gpus(8)});
  const PricedSchedule same = priced(cluster, testing::ideal(), Algorithm::ring, 8, 1e9);
  EXPECT_EQ(same.protocol, Protocol::simple);
  EXPECT_DOUBLE_EQ(same.schedule.phases[0].share, bare.phases[0].share);
  EXPECT_DOUBLE_EQ(same.schedule.phases[0].latency.value, bare.phases[0].latency.value);
}

TEST(Protocols, FlagsForSmallMessagesDataAloneForLargeOnes) {
  const Cluster cluster = small_cluster({.nodes = 1, .gpus_per_node = 8});
  const CostProfile profile = cost_profile("H100");
  EXPECT_NE(priced(cluster, profile, Algorithm::ring, 8, 1e4).protocol, Protocol::simple);
  EXPECT_EQ(priced(cluster, profile, Algorithm::ring, 8, 1e9).protocol, Protocol::simple);
}

// Expected by hand: start, rounds of LL at the link's latency, the bytes with their flags.
TEST(Protocols, PriceIsStartRoundsAndBytes) {
  const Cluster cluster = small_cluster({.nodes = 1, .gpus_per_node = 8});
  CostProfile profile = testing::ideal();
  profile.collective_start = {20e-6};
  profile.collective_ll = 0.5;
  profile.collective_hop = 1;
  profile.collective_fill = {1e-6};
  const double small = 1e3, large = 1e9;
  EXPECT_NEAR(priced(cluster, profile, Algorithm::ring, 8, small).alone.value,
              20e-6 + 14e-6 + 2 * 14.0 / 8 * small / 450e9, 1e-15);
  const double transfer = 14.0 / 8 * large / 450e9;
  EXPECT_NEAR(priced(cluster, profile, Algorithm::ring, 8, large).alone.value,
              20e-6 + 14 * (1e-6 + 2.8e-6) + transfer + 2 * std::sqrt(transfer * 1e-6), 1e-12);
}

// Expected by hand: single values of a profile that are absent change nothing; set, they replace
// the share, the loss and the fill of their algorithm alone.
TEST(Protocols, SharesAndFillsOfSingleCollectives) {
  const Cluster cluster = small_cluster({.nodes = 1, .gpus_per_node = 4, .nvls = true});
  CostProfile profile = testing::ideal();
  const double size = 1e9, ring = 6.0 / 4 * size / 450e9, nvls = 5.0 / 4 * size / 450e9;
  profile.collective_ring = 0.5;
  profile.collective_fill = {1e-6};
  EXPECT_NEAR(priced(cluster, profile, Algorithm::ring, 4, size).alone.value,
              6e-6 + 2 * ring + 2 * std::sqrt(2 * ring * 1e-6), 1e-12);
  EXPECT_NEAR(priced(cluster, profile, Algorithm::nvls, 4, size).alone.value,
              2e-6 + nvls + 2 * std::sqrt(nvls * 1e-6), 1e-12);
  profile.collective_nvls_fill = {4e-6};
  profile.collective_round = 0.5;
  EXPECT_NEAR(priced(cluster, profile, Algorithm::nvls, 4, size).alone.value,
              1e-6 + nvls + 2 * std::sqrt(nvls * 4e-6), 1e-12);
  profile.collective_half_loss = 0.4;
  const auto gather = collective_schedule(cluster, Kind::all_gather, Algorithm::ring, {gpus(4)});
  const double few = (1 - 0.4 / 4) / (1 - 0.4 / 8), half = 3.0 / 4 * size / 450e9 / 0.5 / few;
  EXPECT_NEAR(price_protocols(cluster, profile, Kind::all_gather, gather, {size}).alone.value,
              1.5e-6 + half + 2 * std::sqrt(half * 1e-6), 1e-12);
}

TEST(Protocols, FewGpusOfADomainReachLessOfTheNetwork) {
  const Cluster cluster = small_cluster({.nodes = 2, .gpus_per_node = 1});
  CostProfile profile = testing::ideal();
  const double before = priced(cluster, profile, Algorithm::ring, 2, 1e9).alone.value;
  profile.network_pair_loss = 0.2;
  const double after = priced(cluster, profile, Algorithm::ring, 2, 1e9).alone.value;
  EXPECT_NEAR(after / before, (1 - 0.2 / 8) / (1 - 0.2), 1e-3);
}

TEST(Protocols, MoreBytesAreNeverFaster) {
  const Cluster cluster = small_cluster({.nodes = 4, .gpus_per_node = 8, .nvls = true});
  const CostProfile profile = cost_profile("H100");
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::hierarchical,
                                    Algorithm::nvls, Algorithm::halving_doubling}) {
    double before = 0;
    for (double size = 1e3; size < 1e11; size *= 1.5) {
      const double now = priced(cluster, profile, algorithm, 32, size).alone.value;
      EXPECT_GT(now, before) << size << " bytes";
      before = now;
    }
  }
}

// Bus bandwidths of NVIDIA's talk on NCCL (GTC 2024) for one DGX H100 and for many.
TEST(Protocols, LargeAllReducesReachWhatIsPublished) {
  const CostProfile profile = cost_profile("H100");
  const auto bus = [&](const Cluster& cluster, Algorithm algorithm, std::uint32_t ranks) {
    const double size = 16e9, n = ranks;
    return 2 * (n - 1) / n * size / priced(cluster, profile, algorithm, ranks, size).alone.value;
  };
  const Cluster one = small_cluster({.nodes = 1, .gpus_per_node = 8, .nvls = true});
  EXPECT_NEAR(bus(one, Algorithm::ring, 8) / 370e9, 1, 0.04);
  EXPECT_NEAR(bus(one, Algorithm::nvls, 8) / 480e9, 1, 0.06);
  const Cluster many = small_cluster({.nodes = 16, .gpus_per_node = 8, .nvls = true});
  EXPECT_NEAR(bus(many, Algorithm::ring, 128) / 380e9, 1, 0.06);
}

}  // namespace
}  // namespace orrery::estimates

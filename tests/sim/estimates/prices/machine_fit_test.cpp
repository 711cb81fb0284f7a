#include "sim/estimates/prices/machine_fit.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "sim/estimates/prices/machine_costs.hpp"
#include "topologies/machine.hpp"

namespace orrery::estimates {
namespace {

/// Links of 200 us a round and 400 MB/s; products at 20 GFLOP/s that take 1 us to begin.
MachineMeasurements measured() {
  MachineMeasurements out;
  out.set_cores(2);
  out.set_memory(8e9);
  out.set_copy_rate(1e10);
  out.set_update(2e-9);
  for (const std::uint32_t size : {64u, 128u, 256u, 512u}) {
    MachineMeasurements::Product& product = *out.add_products();
    product.set_m(size);
    product.set_n(size);
    product.set_k(size);
    product.set_seconds(2.0 * std::pow(size, 3) / 20e9 + 1e-6);
  }
  for (const std::uint32_t ranks : {2u, 4u}) {
    for (const double bytes : {4e3, 1e5, 1e6, 4e6}) {
      MachineMeasurements::Sum& sum = *out.add_sums();
      sum.set_ranks(ranks);
      sum.set_bytes(bytes);
      const double rounds = 2.0 * (ranks - 1);
      sum.set_seconds(rounds * 200e-6 + rounds / ranks * bytes / 4e8);
    }
  }
  CodecRate& rate = *out.add_codecs();
  rate.set_codec("int4");
  rate.set_encode(1e9);
  rate.set_decode(2e9);
  return out;
}

TEST(MachineFit, ARingsLineIsFoundAgain) {
  const MachineProfile machine = fit_machine(measured());
  ASSERT_EQ(machine.links_size(), 2);
  for (const RankLinks& links : machine.links()) {
    EXPECT_NEAR(links.latency(), 200e-6, 1e-9) << links.ranks();
    EXPECT_NEAR(links.bandwidth(), 4e8, 1e3) << links.ranks();
  }
}

TEST(MachineFit, ProductsArePricedAsTheyWereMeasured) {
  const MachineMeasurements given = measured();
  EXPECT_LT(product_error(given, fit_machine(given)), 0.1);
}

TEST(MachineFit, ALatencyIsNeverNegative) {
  std::vector<MachineMeasurements::Sum> sums(2);
  sums[0].set_bytes(1e3);
  sums[0].set_seconds(1e-6);
  sums[1].set_bytes(1e6);
  sums[1].set_seconds(2e-2);  // more than in proportion
  const RankLinks links = fit_links(2, sums);
  EXPECT_EQ(links.latency(), 0);
  EXPECT_GT(links.bandwidth(), 0);
}

TEST(MachineCosts, AreThoseOfTheProfileForItsRanks) {
  MachineProfile machine = fit_machine(measured());
  machine.mutable_links(1)->set_control(3e-3);
  const MachineCosts costs = machine_costs(machine, 4);
  EXPECT_EQ(costs.control.value, 3e-3);
  EXPECT_EQ(costs.update->value, 2e-9);
  EXPECT_EQ(costs.codecs->at(std::size_t(Codec::int4)).encode, 1e9);
  EXPECT_EQ(costs.codecs->at(std::size_t(Codec::bf16)).encode, cpu_throughput(Codec::bf16).encode)
      << "what was not measured is as known";
  EXPECT_FALSE(machine_costs({}, 4).kernels.has_value());
}

}  // namespace
}  // namespace orrery::estimates

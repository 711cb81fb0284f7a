#include "topologies/power.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "topologies/builder.hpp"

namespace orrery {
namespace {

Cluster build(const std::string& text) {
  Topology topology;
  const SourceMap places = load_yaml(text, "t.yaml", topology);
  resolve(topology, places);
  return build_cluster(topology, places);
}

TEST(Power, FollowsTheActivity) {
  const GpuModel gpu = build("preset: dgx-h100\nnodes: 1\n").gpu_model();
  EXPECT_DOUBLE_EQ(power_of(gpu, Activity::products).value, 700);
  EXPECT_DOUBLE_EQ(power_of(gpu, Activity::memory).value, 75 + 0.6 * 625);
  EXPECT_DOUBLE_EQ(power_of(gpu, Activity::communication).value, 75 + 0.35 * 625);
  EXPECT_DOUBLE_EQ(power_of(gpu, Activity::waiting).value, 75 + 0.2 * 625);
  EXPECT_DOUBLE_EQ(power_of(gpu, Activity::idle).value, 75);
  EXPECT_DOUBLE_EQ(mean_power(gpu, {1, 0, 0, 0, 3}).value, (700 + 3 * 75) / 4.0);
  EXPECT_DOUBLE_EQ(mean_power(gpu, {}).value, 75);
}

TEST(Power, SharesAreThoseOfTheGpu) {
  const GpuModel gpu =
      build("preset: dgx-h100\nnodes: 1\nnode: {gpu: Own}\ngpus:\n"
            "  - {name: Own, memory: 80 GB, memory_bandwidth: 3 TB/s, fp32: 60 TFLOP/s, "
            "bf16: 900 TFLOP/s, pcie: 64 GB/s, idle_power: 100 W, max_power: 600 W, source: [x], "
            "activity: {products: 0.9, waiting: 0.5}}\n").gpu_model();
  EXPECT_DOUBLE_EQ(power_of(gpu, Activity::products).value, 550);
  EXPECT_DOUBLE_EQ(power_of(gpu, Activity::waiting).value, 350);
  EXPECT_DOUBLE_EQ(power_of(gpu, Activity::memory).value, 400) << "a default";
}

TEST(Power, ACapLimitsProductsOnly) {
  const GpuModel gpu =
      build("preset: dgx-h100\nnodes: 1\nnode: {power_cap: 500 W}\n").gpu_model();
  EXPECT_DOUBLE_EQ(power_of(gpu, Activity::products).value, 500);
  EXPECT_DOUBLE_EQ(power_of(gpu, Activity::memory).value, 450);
  const double clock = clock_under(gpu, {400});
  EXPECT_DOUBLE_EQ(clock, std::cbrt(325.0 / 425)) << "of its own limit";
  EXPECT_NEAR(power_of(gpu, Activity::products, clock).value, 400, 1e-9);
  EXPECT_NEAR(power_of(gpu, Activity::memory, clock).value, 400, 1e-9);
  EXPECT_DOUBLE_EQ(power_of(gpu, Activity::waiting, clock).value, 200);
  EXPECT_EQ(clock_under(gpu, {600}), 1);
  EXPECT_EQ(clock_under(gpu, {60}), 0);
}

TEST(Power, TheWholeClusterAndTheLimitOfAGpuAreInverse) {
  const Cluster cluster = build("preset: dgx-h100\nnodes: 10\nprice: {pue: 1.5}\n");
  EXPECT_DOUBLE_EQ(full_power(cluster).value, 1.5 * 10 * 8400);
  EXPECT_NEAR(gpu_limit(cluster, full_power(cluster)).value, 700, 1e-9);
  EXPECT_NEAR(gpu_limit(cluster, full_power(cluster) * 0.8).value, (6720 - 2800) / 8.0, 1e-9);
}

/// arXiv:2412.08602: 8.4 kW at most, of a node of 8 H100 with GPUs near full utilization.
TEST(Power, ANodeOfEightH100DrawsWhatWasMeasuredAtMost) {
  const Cluster cluster = build("preset: dgx-h100\nnodes: 1\n");
  const double node = 8 * power_of(cluster.gpu_model(), Activity::products).value +
                      cluster.shape().host_power.value;
  EXPECT_NEAR(node / 8400, 1, 0.08);
}

/// 8.4 kW x 80% less 2.8 kW and 0.6 kW leave 3.32 kW above idle, of 625 W for each GPU.
TEST(Power, ALimitIsANumberOfWorkingGpusOrTheirClock) {
  const Cluster cluster = build("preset: dgx-h100\nnodes: 1\nprice: {pue: 1.5}\n");
  const WorkingPower power(cluster);
  const Watts site = full_power(cluster) * 0.8;
  EXPECT_DOUBLE_EQ(power.total_power(8).value, full_power(cluster).value);
  EXPECT_DOUBLE_EQ(power.total_power(0).value, 1.5 * 3400);
  EXPECT_EQ(power.gpus_within(site), 5u);
  EXPECT_EQ(power.gpus_within(site, 0.5), 8u) << "not more than there are";
  EXPECT_EQ(power.gpus_within(full_power(cluster)), 8u);
  EXPECT_EQ(power.gpus_within({1.5 * 3400}), 0u);
  EXPECT_EQ(power.gpus_within({100}), 0u);
  for (const double gpus : {5.0, 6.0, 7.0, 8.0}) {
    const double clock = power.shared_clock(gpus, site);
    EXPECT_EQ(clock == 1, gpus == 5) << gpus;
    if (gpus == 5) continue;
    EXPECT_NEAR(power.total_power(gpus, clock).value, site.value, 1e-6) << gpus;
  }
  EXPECT_EQ(power.shared_clock(3, {100}), 0);
  EXPECT_EQ(power.shared_clock(0, site), 1);
  // A limit that is exactly that of a number of GPUs leaves power for this number.
  for (std::uint32_t gpus = 0; gpus <= 8; ++gpus) {
    EXPECT_EQ(power.gpus_within(power.total_power(gpus)), gpus);
  }
  EXPECT_FALSE(WorkingPower().is_known());
}

}  // namespace
}  // namespace orrery

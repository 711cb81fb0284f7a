#include "sim/cost_model.hpp"

#include <gtest/gtest.h>

#include "topologies/builder.hpp"
#include "tests/sim/run.hpp"

namespace orrery {
namespace {

GpuModel h100() {
  const LoadedScenario loaded = testing::small_scenario(1, 1, 8);
  return build_cluster(loaded.scenario.cluster(), loaded.places).gpu_model();
}

Block product(double m, double n, double k) {
  Kernel kernel;
  kernel.kind = Kernel::Kind::gemm;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.flop = {2 * m * n * k};
  kernel.bytes = {2 * (m * n + n * k + m * k)};
  Block block;
  block.kernels.push_back(kernel);
  return block;
}

double share_of_peak(double m) {
  const GpuModel gpu = h100();
  const Block block = product(m, 8192, 8192);
  const BlockPrice paid = price(block, gpu, Precision::bf16, 1, {}, default_cost_profile());
  return block.kernels[0].flop.value / paid.compute.value / gpu.bf16.value;
}

TEST(CostModel, ProductsReachTheMeasuredShareOfThePeak) {
  // Medians on H100, large n and k: 17% at 64 rows, 67% at 512, 73% at 4096.
  EXPECT_NEAR(share_of_peak(64), 0.17, 0.04);
  EXPECT_NEAR(share_of_peak(512), 0.67, 0.04);
  EXPECT_NEAR(share_of_peak(4096), 0.73, 0.03);
}

TEST(CostModel, DeclaredBlocksCostWhatTheyDeclare) {
  Block block = product(512, 512, 512);
  block.declared = 40'000'000;
  block.collectives.push_back({.kind = {}, .bytes = {1e9}, .repeat = 4});
  const BlockPrice paid =
      price(block, h100(), Precision::bf16, 8, {1e-6}, default_cost_profile());
  EXPECT_EQ(paid.compute.value, 0.04);
  EXPECT_EQ(paid.tensor.value, 0);
}

TEST(CostModel, TensorCollectivesAreRingsOnNvlink) {
  const GpuModel gpu = h100();
  Block block;
  block.collectives.push_back(
      {.kind = BlockCollective::Kind::all_reduce, .bytes = {1e9}, .repeat = 2});
  const CostProfile& profile = default_cost_profile();
  const BlockPrice paid = price(block, gpu, Precision::bf16, 4, {1e-6}, profile);
  const double rate = gpu.nvlink.value * profile.nvlink;
  EXPECT_NEAR(paid.tensor.value, 2 * (6 * 1e-6 + 1.5 * 1e9 / rate), 1e-12);
  EXPECT_EQ(price(block, gpu, Precision::bf16, 1, {1e-6}, profile).tensor.value, 0);
}

TEST(CostModel, MemoryBoundKernelsCostTheirBytes) {
  const GpuModel gpu = h100();
  const CostProfile& profile = default_cost_profile();
  Kernel kernel;
  kernel.kind = Kernel::Kind::memory_bound;
  kernel.bytes = {1e9};
  kernel.repeat = 3;
  Block block;
  block.kernels.push_back(kernel);
  const BlockPrice paid = price(block, gpu, Precision::bf16, 1, {}, profile);
  const double each = 1e9 / (gpu.memory_bandwidth.value * profile.memory);
  EXPECT_NEAR(paid.compute.value, 3 * (each + profile.kernel_start.value), 1e-12);
  EXPECT_EQ(paid.moved.value, 3e9);
}

}  // namespace
}  // namespace orrery

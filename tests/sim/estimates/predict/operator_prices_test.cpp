#include "sim/estimates/predict/operator_prices.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "topologies/builder.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::estimates {
namespace {

using Ranks = std::vector<std::uint32_t>;

Cluster nodes_of(const char* preset, std::uint32_t nodes) {
  Topology topology;
  topology.set_preset(preset);
  topology.set_nodes(nodes);
  resolve(topology, {});
  return build_cluster(topology, {});
}

Kernel product(double size) {
  Kernel kernel{.kind = Kernel::Kind::gemm, .m = size, .n = size, .k = size};
  kernel.flop = Flop{2 * size * size * size};
  kernel.bytes = Bytes{3 * size * size * 2};
  return kernel;
}

TEST(OperatorPrices, KernelCostsTheSameAsInABlock) {
  const Cluster cluster = nodes_of("dgx-h100", 1);
  const OperatorPrices prices(cluster, 8);
  Block block;
  block.kernels = {product(4096)};
  const CostProfile profile = cost_profile(cluster.gpu_model());
  const BlockPrice alone = price(block, cluster.gpu_model(), Precision::bf16, {}, profile);
  EXPECT_EQ(prices.kernel(product(4096), Precision::bf16).value, alone.compute.value);
  // No kernel is faster than the peak of the data sheet.
  EXPECT_GT(alone.compute.value, product(4096).flop.value / cluster.gpu_model().bf16.value);
}

TEST(OperatorPrices, StackHasItsFactorsOnKernelsAndLinks) {
  const Cluster cluster = nodes_of("dgx-h100", 1);
  SoftwareStack stack = software_stack("generic");
  stack.set_nvlink(0.5);
  StackOnGpu& on = *stack.add_on();
  on.add_gpus("H100");
  on.set_compute(0.5);
  OperatorPrices without(cluster, 8), with(cluster, 8, &stack);
  const Kernel large = product(16384);
  EXPECT_NEAR(with.kernel(large, Precision::bf16).value,
              2 * without.kernel(large, Precision::bf16).value,
              0.05 * without.kernel(large, Precision::bf16).value);
  const Ranks all{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_DOUBLE_EQ(with.collective(CollectiveKind::all_gather, all, Bytes{1e9}).value,
                   2 * without.collective(CollectiveKind::all_gather, all, Bytes{1e9}).value);
}

TEST(OperatorPrices, OlderKernelsOfAttentionHaveTheirRate) {
  const Cluster cluster = nodes_of("dgx-h100", 1);
  const OperatorPrices prices(cluster, 8);
  Kernel attention{.kind = Kernel::Kind::attention, .m = 8192, .n = 8192, .k = 128, .batch = 32};
  attention.flop = Flop{4.0 * 32 * 8192 * 8192 * 128};
  const double newest = prices.kernel(attention, Precision::bf16).value;
  attention.flash_2 = true;
  const double share = cost_profile(cluster.gpu_model()).attention_flash_2;
  EXPECT_LT(share, 0.7);
  EXPECT_NEAR(prices.kernel(attention, Precision::bf16).value, newest / share, 0.01 * newest);
}

TEST(OperatorPrices, MissingPrecisionIsTheNextWiderOne) {
  const Cluster cluster = nodes_of("dgx-a100", 1);
  const OperatorPrices prices(cluster, 8);
  EXPECT_EQ(prices.kernel(product(2048), Precision::fp8).value,
            prices.kernel(product(2048), Precision::bf16).value);
  EXPECT_GT(prices.kernel(product(2048), Precision::fp32).value,
            prices.kernel(product(2048), Precision::tf32).value);
}

TEST(OperatorPrices, CollectiveCostsNoLessThanItsBytesOverTheNetwork) {
  const Cluster cluster = nodes_of("dgx-h100", 4);
  OperatorPrices prices(cluster, 32);
  Ranks all(32);
  for (std::uint32_t i = 0; i < 32; ++i) all[i] = i;
  const Bytes size{1e9};
  const double gathered = prices.collective(CollectiveKind::all_gather, all, size).value;
  const double reduced = prices.collective(CollectiveKind::all_reduce, all, size).value;
  // 3/4 of the bytes cross the 8 NICs of each node.
  const double least = 0.75 * 1e9 / (8 * cluster.shape().nic_bandwidth.value);
  EXPECT_GT(gathered, least);
  EXPECT_LT(gathered, 2 * least);
  EXPECT_GT(reduced, 1.3 * gathered);
  EXPECT_EQ(prices.collective(CollectiveKind::all_reduce, {3}, size).value, 0);
  EXPECT_GT(prices.collective(CollectiveKind::all_to_all, all, size).value, gathered / 32);
}

TEST(OperatorPrices, MembersInOneNodeAreFasterThanAcrossNodes) {
  const Cluster cluster = nodes_of("dgx-h100", 8);
  OperatorPrices prices(cluster, 64);
  const Bytes size{1e8};
  const double inside =
      prices.collective(CollectiveKind::all_reduce, {0, 1, 2, 3, 4, 5, 6, 7}, size).value;
  const double across =
      prices.collective(CollectiveKind::all_reduce, {0, 8, 16, 24, 32, 40, 48, 56}, size).value;
  EXPECT_GT(across, 4 * inside);
}

TEST(OperatorPrices, MemberThatIsNoRankIsRefused) {
  const Cluster cluster = nodes_of("dgx-h100", 1);
  OperatorPrices prices(cluster, 4);
  EXPECT_THROW(prices.collective(CollectiveKind::all_reduce, {0, 5}, Bytes{1}), Error);
}

TEST(SiblingGroups, PartitionTheRanks) {
  EXPECT_EQ(sibling_groups({0, 2}, 4), (std::vector<Ranks>{{0, 2}, {1, 3}}));
  EXPECT_EQ(sibling_groups({4, 5}, 6), (std::vector<Ranks>{{4, 5}, {0, 1}, {2, 3}}));
  EXPECT_EQ(sibling_groups({0, 1, 2}, 4), (std::vector<Ranks>{{0, 1, 2}}));
  EXPECT_EQ(sibling_groups({1, 2}, 4), (std::vector<Ranks>{{1, 2}}));
  EXPECT_EQ(sibling_groups({0, 1, 3}, 6), (std::vector<Ranks>{{0, 1, 3}}));
}

}  // namespace
}  // namespace orrery::estimates

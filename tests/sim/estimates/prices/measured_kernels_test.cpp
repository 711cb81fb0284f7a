#include "sim/estimates/prices/measured_kernels.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "sim/estimates/prices/cost_model.hpp"

namespace orrery::estimates {
namespace {

constexpr double kTflop = 1e12;

GpuModel b200() {
  GpuModel gpu;
  gpu.name = gpu.family = "B200";
  gpu.memory_bandwidth = {8e12};
  gpu.bf16 = {2250 * kTflop};
  gpu.fp8 = {4500 * kTflop};
  gpu.nvlink = {900e9};
  return gpu;
}

MeasuredProduct& add_product(KernelMeasurements& measured, const char* pass, std::uint32_t tokens,
                             std::uint32_t output, std::uint32_t input, double seconds) {
  MeasuredProduct& product = *measured.add_products();
  product.set_pass(pass);
  product.set_tokens(tokens);
  product.set_output(output);
  product.set_input(input);
  product.set_time(seconds);
  return product;
}

Kernel product_of(KernelName name, double m, double n, double k, double batch = 1) {
  Kernel kernel{.kind = Kernel::Kind::gemm, .m = m, .n = n, .k = k, .batch = batch};
  kernel.flop = Flop{2 * m * n * k * batch};
  kernel.bytes = Bytes{2 * (m * k + k * n + m * n) * batch};
  kernel.name = name;
  return kernel;
}

/// Price of one kernel on a B200 with the measurements.
double priced(const KernelMeasurements& measured, const Kernel& kernel,
              Precision precision = Precision::bf16) {
  const CostProfile profile = with_measured(
      cost_profile("B200"), std::make_shared<const MeasuredKernels>(measured), b200());
  return price(Block{.kernels = {kernel}}, b200(), precision, {}, profile).compute.value;
}

double modelled(const Kernel& kernel) {
  return price(Block{.kernels = {kernel}}, b200(), Precision::bf16, {}, cost_profile("B200"))
      .compute.value;
}

KernelMeasurements measured_gpu() {
  KernelMeasurements measured;
  measured.set_gpu("B200");
  measured.add_source("test");
  return measured;
}

TEST(MeasuredKernels, AMeasuredShapeTakesItsTimeInEachPass) {
  KernelMeasurements measured = measured_gpu();
  add_product(measured, "forward", 4096, 10240, 8192, 1e-3);
  add_product(measured, "data-gradient", 4096, 10240, 8192, 2e-3);
  add_product(measured, "weight-gradient", 4096, 10240, 8192, 3e-3);
  EXPECT_DOUBLE_EQ(priced(measured, product_of(KernelName::qkv, 4096, 10240, 8192)), 1e-3);
  EXPECT_DOUBLE_EQ(priced(measured, product_of(KernelName::qkv_dgrad, 4096, 8192, 10240)), 2e-3);
  EXPECT_DOUBLE_EQ(priced(measured, product_of(KernelName::qkv_wgrad, 8192, 10240, 4096)), 3e-3);
}

TEST(MeasuredKernels, AnotherShapeTakesTheModelsTimeTimesTheNearestFactors) {
  KernelMeasurements measured = measured_gpu();
  const Kernel small = product_of(KernelName::qkv, 2048, 4096, 4096),
               large = product_of(KernelName::qkv, 8192, 4096, 4096),
               between = product_of(KernelName::qkv, 4096, 4096, 4096);
  add_product(measured, "forward", 2048, 4096, 4096, 1.2 * modelled(small));
  add_product(measured, "forward", 8192, 4096, 4096, 1.8 * modelled(large));
  EXPECT_NEAR(priced(measured, between) / modelled(between), std::sqrt(1.2 * 1.8), 1e-9);
}

TEST(MeasuredKernels, ARunSustainsAShareOfTheMeasuredRate) {
  KernelMeasurements measured = measured_gpu();
  add_product(measured, "forward", 4096, 10240, 8192, 1e-3);
  measured.set_sustained(0.8);
  EXPECT_NEAR(priced(measured, product_of(KernelName::qkv, 4096, 10240, 8192)), 1.25e-3, 1e-12);
}

TEST(MeasuredKernels, ShapesWithinOnePercentAreScaledByTheirFlops) {
  KernelMeasurements measured = measured_gpu();
  add_product(measured, "forward", 1232, 3072, 5120, 1e-3).set_groups(20);
  const Kernel routed = product_of(KernelName::expert_up, 1228.8, 3072, 5120, 20);
  EXPECT_NEAR(priced(measured, routed), 1e-3 * 1228.8 / 1232, 1e-12);
}

TEST(MeasuredKernels, WhatWasNotMeasuredKeepsTheModelsTime) {
  KernelMeasurements measured = measured_gpu();
  add_product(measured, "forward", 4096, 10240, 8192, 1e-3);
  const Kernel grouped = product_of(KernelName::expert_up, 1232, 3072, 5120, 20),
               gradient = product_of(KernelName::qkv_dgrad, 4096, 8192, 10240);
  EXPECT_EQ(priced(measured, grouped), modelled(grouped));
  EXPECT_EQ(priced(measured, gradient), modelled(gradient));
  Kernel low = product_of(KernelName::qkv, 4096, 10240, 8192);
  low.low_precision = true;
  EXPECT_NE(priced(measured, low, Precision::fp8), 1e-3);
  EXPECT_EQ(priced(measured, low), 1e-3);
}

TEST(MeasuredKernels, AttentionIsFoundByHeadsAndSequenceAlsoInAContextGroup) {
  KernelMeasurements measured = measured_gpu();
  MeasuredAttention& attention = *measured.add_attention();
  attention.set_pass("forward");
  attention.set_sequence(32768);
  attention.set_heads(8);
  attention.set_kv_heads(1);
  attention.set_head(128);
  attention.set_value(128);
  attention.set_time(2e-3);
  Kernel whole{.kind = Kernel::Kind::attention, .m = 32768, .n = 32768, .k = 128, .batch = 8};
  whole.flop = Flop{8.0 * 32768 * 32768 * 256};
  whole.name = KernelName::attention;
  EXPECT_DOUBLE_EQ(priced(measured, whole), 2e-3);
  Kernel ring = whole;  // a quarter of the queries of all 32 heads
  ring.m = 8192;
  ring.batch = 32;
  EXPECT_DOUBLE_EQ(priced(measured, ring), 2e-3);
}

TEST(MeasuredKernels, StreamsTakeTheirOwnBandwidthAndStart) {
  KernelMeasurements measured = measured_gpu();
  const auto add = [&](const char* kind, double bandwidth, double start) {
    MeasuredStream& stream = *measured.add_streams();
    stream.set_kind(kind);
    stream.set_bandwidth(bandwidth);
    stream.set_start(start);
  };
  add("other", 4e12, 10e-6);
  add("permute", 2e12, 10e-6);
  add("permute", 1e12, 10e-6);
  add("fused-loss", 2e12, 10e-6);
  Kernel stream{.kind = Kernel::Kind::memory_bound, .m = 1e9, .bytes = Bytes{4e9}};
  stream.name = KernelName::adam;
  EXPECT_NEAR(priced(measured, stream), 1e-3 + 10e-6, 1e-12);
  stream.name = KernelName::permute;  // the mean of both directions, four launches
  EXPECT_NEAR(priced(measured, stream), 3e-3 + 40e-6, 1e-12);
  stream.name = KernelName::loss;  // reads and writes a billion logits of two bytes
  EXPECT_NEAR(priced(measured, stream), 2e-3 + 10e-6, 1e-12);
}

TEST(MeasuredKernels, ACollectiveInTheNodeTakesItsRoundsAndItsShareOfTheBytes) {
  KernelMeasurements measured = measured_gpu();
  MeasuredCollective& gather = *measured.add_collectives();
  gather.set_kind("all-gather");
  gather.set_bandwidth(5e11);
  gather.set_round(5e-6);
  gather.set_start(20e-6);
  const Bytes size{1e9};
  const BlockCollective made{BlockCollective::Kind::all_gather, size};
  const CostProfile profile = with_measured(
      cost_profile("B200"), std::make_shared<const MeasuredKernels>(measured), b200());
  const auto exposed = [&](const BlockCollective& each, std::uint32_t per_node) {
    BlockGroups groups;
    groups.tensor = {8, per_node};
    groups.network = {4e11};
    return price(Block{.collectives = {each}}, b200(), Precision::bf16, groups, profile)
        .tensor.value;
  };
  EXPECT_NEAR(exposed(made, 8), 20e-6 + 7 * 5e-6 + 7.0 / 8 * 1e9 / 5e11, 1e-12);
  EXPECT_GT(exposed(made, 4), exposed(made, 8));  // leaves the node: the fabric's price
  EXPECT_NEAR(profile.nvlink, 5e11 / 900e9, 1e-12);
}

TEST(MeasuredKernels, AnotherGpuIsRefused) {
  const MeasuredKernels measured(measured_gpu());
  GpuModel gpu = b200();
  gpu.name = "B200-180GB";
  EXPECT_NO_THROW(measured.check_gpu(gpu));
  gpu.name = "H100";
  EXPECT_THROW(measured.check_gpu(gpu), Error);
}

}  // namespace
}  // namespace orrery::estimates

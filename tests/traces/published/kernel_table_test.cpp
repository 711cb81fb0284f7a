#include "traces/published/kernel_table.hpp"

#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

const std::string kHead = "gpu,op,peak_tflops,efficiency,shape\n";

KernelTable table_of(const std::string& rows, const std::string& gpu = {}) {
  return read_kernel_table("node.csv", kHead + rows, gpu);
}

std::string message_of(const std::string& rows, const std::string& gpu = {}) {
  try {
    table_of(rows, gpu);
  } catch (const Error& error) {
    return std::string(error.what());
  }
  return "no error";
}

TEST(KernelTable, ProductsAreNamedByThePassOfTheirLayout) {
  const KernelMeasurements measured =
      table_of(
          "B200-SXM,matmul,1000,0.5,\"b=1, m=4096, k=8192, n=10240, layout=TN\"\n"
          "B200-SXM,matmul,1000,0.5,\"b=1, m=4096, k=10240, n=8192, layout=NN\"\n"
          "B200-SXM,matmul,1000,0.5,\"b=1, m=10240, k=4096, n=8192, layout=NT\"\n")
          .measured;
  EXPECT_EQ(measured.gpu(), "B200");
  ASSERT_EQ(measured.products_size(), 3);
  const char* const passes[] = {"forward", "data-gradient", "weight-gradient"};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(measured.products(i).pass(), passes[i]);
    EXPECT_EQ(measured.products(i).tokens(), 4096u);
    EXPECT_EQ(measured.products(i).output(), 10240u);
    EXPECT_EQ(measured.products(i).input(), 8192u);
    EXPECT_NEAR(measured.products(i).time(), 2.0 * 4096 * 8192 * 10240 / 5e14, 1e-12);
  }
}

TEST(KernelTable, AttentionCountsItsBatchAsHeadsAndTheWholeSquare) {
  const KernelMeasurements measured =
      table_of(
          "B200,sdp_bwd,1000,0.5,\"batch=2, seq_len=4096, head_num=8, kv_head_num=2, "
          "qk_head_dim=192, v_head_dim=128, qkv_contiguous=True\"\n")
          .measured;
  ASSERT_EQ(measured.attention_size(), 1);
  EXPECT_EQ(measured.attention(0).pass(), "backward");
  EXPECT_EQ(measured.attention(0).heads(), 16u);
  EXPECT_EQ(measured.attention(0).kv_heads(), 4u);
  EXPECT_NEAR(measured.attention(0).time(), 5.0 * 2 * 4096 * 4096 * 8 * 320 / 5e14, 1e-12);
}

TEST(KernelTable, CollectivesOfTheNodeHaveTheirStartsByNumberOfGpus) {
  const KernelTable table = table_of(
      "B200,network:high_intra_node:all2all,,0.5,\"{efficient_factor: 0.5, gbps: 900.0, "
      "latency_us: 7, fixed_latency_us: 1, fixed_latency_us_by_comm_num: {2: 51, 8: 0}}\"\n"
      "B200,network:inter_node:p2p,,,\"{efficient_factor: 1, gbps: 200}\"\n"
      "B200,bandwidth:permute_fwd,,0.5,\"gbps=8000.0, latency_us=30\"\n");
  EXPECT_EQ(table.used, 2u);
  EXPECT_EQ(table.ignored, 1u);
  const KernelMeasurements& measured = table.measured;
  ASSERT_EQ(measured.collectives_size(), 3);
  EXPECT_EQ(measured.collectives(0).kind(), "all-to-all");
  EXPECT_NEAR(measured.collectives(0).bandwidth(), 450 * 1073741824.0, 1);
  EXPECT_NEAR(measured.collectives(0).start(), 1e-6, 1e-15);
  EXPECT_EQ(measured.collectives(1).ranks(), 2u);
  EXPECT_NEAR(measured.collectives(1).start(), 51e-6, 1e-15);
  ASSERT_EQ(measured.streams_size(), 1);
  EXPECT_EQ(measured.streams(0).kind(), "permute");
  EXPECT_NEAR(measured.streams(0).start(), 30e-6, 1e-15);
}

TEST(KernelTable, ErrorsNameThePlaceAndTheNearestName) {
  EXPECT_NE(message_of("B200,matmull,1000,0.5,\"m=1\"\n").find("did you mean 'matmul'"),
            std::string::npos);
  EXPECT_NE(message_of("B200,matmul,1000,0,\"b=1, m=2, k=2, n=2, layout=TN\"\n")
                .find("expected a number above 0 in column 'efficiency'"),
            std::string::npos);
  EXPECT_NE(message_of("B200,matmul,1000,0.5,\"b=1, m=2, n=2, layout=TN\"\n")
                .find("expected the key 'k' in the shape of a matmul"),
            std::string::npos);
  EXPECT_NE(
      message_of("B200,matmul,1000,0.5,\"b=1, m=2, k=2, n=2, layout=TT\"\n").find("found 'TT'"),
      std::string::npos);
  EXPECT_NE(message_of("K9,matmul,1000,0.5,\"b=1\"\n").find("found 'K9'"), std::string::npos);
  EXPECT_NE(message_of("").find("found no row"), std::string::npos);
}

TEST(KernelTable, OneGpuOfSeveralIsChosenByName) {
  const std::string rows =
      "B200-SXM,matmul,1000,0.5,\"b=1, m=2, k=2, n=2, layout=TN\"\n"
      "A100-PCIe-80GB,matmul,312,0.5,\"b=1, m=4, k=4, n=4, layout=TN\"\n";
  EXPECT_NE(message_of(rows).find("name one with --gpu"), std::string::npos);
  EXPECT_EQ(table_of(rows, "A100-80GB").measured.products(0).tokens(), 4u);
  EXPECT_NE(message_of(rows, "H100").find("expected measurements of H100"), std::string::npos);
}

}  // namespace
}  // namespace orrery

// The kernels against the CPU's codecs, byte for byte. Skipped, with the reason, without a GPU.
#include "live/training/cuda_codec.hpp"

#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "tests/live/codec/all_rules.hpp"

namespace orrery::live {
namespace {

#ifndef ORRERY_CUDA_MODULE
#define ORRERY_CUDA_MODULE "liborrery_cuda.so"
#endif

TEST(CudaCodec, WithoutAModuleThereIsAReason) {
  std::string reason;
  EXPECT_EQ(CudaCodecs::open("/no/such/module.so", reason), nullptr);
  EXPECT_NE(reason.find("liborrery_cuda.so"), std::string::npos);
}

TEST(CudaCodec, TheKernelsGetTheSizesOfThePolicy) {
  const OrreryCodec int4 = codec_sizes({.codec = Codec::int4}, 100);
  EXPECT_EQ(int4.block, 16u);
  EXPECT_EQ(int4.code_size, 50u + 7 * 2);
  EXPECT_EQ(codec_sizes({.codec = Codec::top_k, .parameter = 0.1}, 101).kept, 11u);
  EXPECT_EQ(codec_sizes({.codec = Codec::power_sgd, .parameter = 2}, 100).rank, 2u);
  EXPECT_EQ(codec_sizes({.codec = Codec::none}, 100).feedback, 0u);
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

void compare(const CudaCodecs& gpu, const CodecRule& rule, std::size_t count, float odd_one) {
  const auto cpu = make_codec(rule);
  CodecState on_cpu, on_gpu;
  for (int step = 0; step < 3; ++step) {
    std::vector<float> values = gradient_like(count, Rng(count + static_cast<unsigned>(step)));
    if (step == 1 && count > 5) values[5] = odd_one;
    std::vector<std::byte> expected(cpu->encoded_size(count)), code(expected.size());
    cpu->encode_values(values, on_cpu, expected);
    gpu.encode_values(rule, values, on_gpu, code);
    ASSERT_EQ(code, expected) << "step " << step;
    ASSERT_TRUE(same_bits(on_cpu.residual, on_gpu.residual)) << "step " << step;
    std::vector<float> decoded(count), wanted(count);
    cpu->decode_values(expected, wanted);
    gpu.decode_values(rule, code, decoded);
    ASSERT_TRUE(same_bits(decoded, wanted)) << "step " << step;
  }
}

TEST(CudaCodec, CodesDecodedValuesAndMemoryAreTheCpusByteForByte) {
  std::string reason;
  const auto gpu = CudaCodecs::open(ORRERY_CUDA_MODULE, reason);
  if (!gpu) GTEST_SKIP() << reason;
  std::vector<std::size_t> sizes = odd_sizes();
  sizes.push_back(1'000'003);
  for (const CodecRule& rule : all_rules()) {
    for (const std::size_t count : sizes) {
      for (const float odd_one : {1e30F, std::numeric_limits<float>::denorm_min()}) {
        SCOPED_TRACE(name_of(rule) + ", " + std::to_string(count) + " values");
        compare(*gpu, rule, count, odd_one);
      }
    }
  }
}

}  // namespace
}  // namespace orrery::live

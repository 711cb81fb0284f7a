#include "traces/workload/gradient_codec.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

TEST(GradientCodec, NamesRoundTripAndAWrongOneGetsTheNearest) {
  for (int i = 0; i <= static_cast<int>(Codec::power_sgd); ++i) {
    const auto codec = static_cast<Codec>(i);
    EXPECT_EQ(codec_of_name(codec_name(codec)), codec);
  }
  try {
    codec_of_name("int5");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'int8'"), std::string::npos);
  }
}

TEST(GradientCodec, TheRuleOfMatricesHoldsForClassesWithoutOne) {
  const std::vector<CodecRule> rules = {{.bucket_class = kMatrices, .codec = Codec::int4},
                                        {.bucket_class = kVectors, .codec = Codec::none}};
  EXPECT_EQ(rule_for(rules, kMatrices).codec, Codec::int4);
  EXPECT_EQ(rule_for(rules, kVectors).codec, Codec::none);
  EXPECT_EQ(rule_for(rules, kEmbeddings).codec, Codec::int4);
  EXPECT_EQ(rule_for({}, kEmbeddings).codec, Codec::none);
}

TEST(GradientCodec, BytesOfTheTwoStepExchangeDoNotGrowWithTheRanks) {
  // An all-gather of codes would send (ranks - 1) of them.
  const CodecRule int8{.codec = Codec::int8};
  for (const std::uint32_t ranks : {2u, 8u, 64u}) {
    const double plain = exchange_bytes({}, 1 << 20, ranks);
    EXPECT_NEAR(exchange_bytes(int8, 1 << 20, ranks) / plain, codec_ratio(int8, 1 << 20), 1e-12);
  }
  EXPECT_EQ(exchange_bytes(int8, 1 << 20, 1), 0);
}

TEST(GradientCodec, TimeOfTheCodecGrowsWithTheBytesAndVanishesWithoutOne) {
  const CodecThroughput measured = cpu_throughput(Codec::int8);
  EXPECT_GT(exchange_codec_seconds(2'000'000, 4, measured),
            1.9 * exchange_codec_seconds(1'000'000, 4, measured));
  EXPECT_EQ(exchange_codec_seconds(1'000'000, 1, measured), 0);
  EXPECT_EQ(exchange_codec_seconds(1'000'000, 4, cpu_throughput(Codec::none)), 0);
}

TEST(GradientCodec, AMatrixHoldsItsBucket) {
  for (std::uint64_t count = 0; count < 3000; ++count) {
    const MatrixShape shape = matrix_shape(count);
    ASSERT_GE(shape.rows * shape.columns, count);
    ASSERT_LT(shape.rows * shape.columns, count + shape.columns + 1);
  }
}

}  // namespace
}  // namespace orrery

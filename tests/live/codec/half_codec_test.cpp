// bf16 and fp16 against the definition: the nearest representable value, ties to even.
#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "live/codec/arithmetic.hpp"
#include "core/random.hpp"

namespace orrery::live::arithmetic {
namespace {

TEST(HalfCodec, EveryCodeOfEitherKindDecodesAndEncodesToItself) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto half = static_cast<std::uint16_t>(code);
    const float from_brain = from_bf16(half), from_half = from_fp16(half);
    EXPECT_TRUE(std::isnan(from_brain) || to_bf16(from_brain) == half) << code;
    EXPECT_TRUE(std::isnan(from_half) || to_fp16(from_half) == half) << code;
  }
}

TEST(HalfCodec, Fp16DecodesToTheValuesOfTheStandard) {
  for (std::uint32_t code = 0; code < 0x7C00; ++code) {
    const int exponent = static_cast<int>(code >> 10);
    const double mantissa = code & 0x3FF;
    const double value = exponent == 0 ? std::ldexp(mantissa, -24)
                                       : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(from_fp16(static_cast<std::uint16_t>(code)), value);
  }
}

/// The neighbours of a finite value's code are no nearer to it, and equally near ones are odd.
template <class To, class From>
void expect_nearest(float value, To to, From from) {
  const std::uint16_t code = to(value);
  const double distance = std::abs(double{from(code)} - value);
  for (const int step : {-1, 1}) {
    const auto other = static_cast<std::uint16_t>(code + step);
    if ((other & 0x8000) != (code & 0x8000) || !std::isfinite(from(other))) continue;
    const double there = std::abs(double{from(other)} - value);
    ASSERT_LE(distance, there) << value;
    ASSERT_TRUE(distance < there || code % 2 == 0) << value;
  }
}

TEST(HalfCodec, AValueBecomesTheNearestAndTiesBecomeEven) {
  Rng rng(1);
  for (int i = 0; i < 200'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(rng.next()));
    if (std::isfinite(value) && std::abs(value) < 3e38F) {
      expect_nearest(value, to_bf16, from_bf16);
      if (std::abs(value) <= 65504) expect_nearest(value, to_fp16, from_fp16);
    }
  }
  for (std::uint32_t code = 0; code < 0x7BFF; ++code) {  // exactly between two codes
    const auto half = static_cast<std::uint16_t>(code);
    const float middle = (from_fp16(half) + from_fp16(static_cast<std::uint16_t>(half + 1))) / 2;
    ASSERT_EQ(to_fp16(middle), half + (half & 1)) << code;
  }
}

TEST(HalfCodec, BeyondTheRangeAndNotANumber) {
  EXPECT_EQ(from_fp16(to_fp16(1e9F)), 65504.0F) << "finite stays finite";
  EXPECT_EQ(from_fp16(to_fp16(-65520.0F)), -65504.0F);
  EXPECT_EQ(from_fp16(to_fp16(-std::numeric_limits<float>::infinity())),
            -std::numeric_limits<float>::infinity());
  for (const std::uint32_t bits : {0x7F800001u, 0xFFFFFFFFu, 0x7FC00000u}) {
    EXPECT_TRUE(std::isnan(from_fp16(to_fp16(float_of(bits)))));
    EXPECT_TRUE(std::isnan(from_bf16(to_bf16(float_of(bits)))));
  }
}

}  // namespace
}  // namespace orrery::live::arithmetic

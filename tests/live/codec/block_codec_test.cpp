// int8 and int4: error bounds and layout of the code; values that are not finite affect only their
// block.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/live/codec/all_rules.hpp"

namespace orrery::live {
namespace {

std::vector<float> round_trip(const CodecRule& rule, std::span<const float> values) {
  const auto codec = make_codec(rule);
  CodecState state;
  std::vector<float> decoded(values.size());
  codec->decode_values(encoded(*codec, values, state), decoded);
  return decoded;
}

/// Each error is at most `share` of the largest magnitude in its block.
void expect_bounded(const CodecRule& rule, double share) {
  const auto block = static_cast<std::size_t>(parameter_of(rule));
  for (const std::size_t count : odd_sizes()) {
    const std::vector<float> values = gradient_like(count, Rng(count));
    const std::vector<float> decoded = round_trip(rule, values);
    for (std::size_t i = 0; i < count; ++i) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(i / block * block);
      const auto last = values.begin() +
                        static_cast<std::ptrdiff_t>(std::min(count, (i / block + 1) * block));
      float largest = 0;
      for (auto each = first; each != last; ++each) largest = std::max(largest, std::abs(*each));
      ASSERT_LE(std::abs(decoded[i] - values[i]), share * largest) << name_of(rule) << " " << i;
    }
  }
}

TEST(BlockCodec, ErrorsAreHalfAStepOfTheBlocksScale) {
  expect_bounded({.codec = Codec::int8}, 0.5001 / 127);
  expect_bounded({.codec = Codec::int8, .parameter = 8}, 0.5001 / 127);
  // The scale is rounded to bf16, by at most 1/256 of it: at the top that is 7/256 of a step.
  expect_bounded({.codec = Codec::int4}, 0.51 / 7);
  expect_bounded({.codec = Codec::int4, .parameter = 10}, 0.51 / 7);
}

TEST(BlockCodec, MultiplesOfTheScaleAreExact) {
  std::vector<float> values(256);
  for (int i = 0; i < 256; ++i) values[static_cast<std::size_t>(i)] = 0.25F * float(i % 255 - 127);
  EXPECT_EQ(round_trip({.codec = Codec::int8}, values), values);
  for (int i = 0; i < 256; ++i) values[static_cast<std::size_t>(i)] = 0.5F * float(i % 15 - 7);
  EXPECT_EQ(round_trip({.codec = Codec::int4, .parameter = 256}, values), values);
}

TEST(BlockCodec, ABadValueSpoilsItsBlockOnly) {
  std::vector<float> values(100, 1.0F);
  values[40] = std::numeric_limits<float>::infinity();
  const std::vector<float> decoded = round_trip({.codec = Codec::int4}, values);
  for (std::size_t i = 0; i < 100; ++i) {
    const bool spoilt = i / 16 == 2;
    EXPECT_EQ(std::isnan(decoded[i]), spoilt) << i;
  }
}

TEST(BlockCodec, CodesThatAreNeverWrittenAreRefused) {
  std::vector<float> decoded(3);
  std::vector<std::byte> code(make_codec({.codec = Codec::int8})->encoded_size(3));
  code[4] = std::byte{0x80};
  EXPECT_THROW(make_codec({.codec = Codec::int8})->decode_values(code, decoded), Error);
  code.assign(make_codec({.codec = Codec::int4})->encoded_size(3), std::byte{0});
  EXPECT_NO_THROW(make_codec({.codec = Codec::int4})->decode_values(code, decoded));
  code[2] = std::byte{0x80};
  EXPECT_THROW(make_codec({.codec = Codec::int4})->decode_values(code, decoded), Error);
  code[2] = std::byte{0};
  code[3] = std::byte{0x10};  // the half behind the last value
  EXPECT_THROW(make_codec({.codec = Codec::int4})->decode_values(code, decoded), Error);
}

TEST(BlockCodec, SizesAreThoseOfTheTable) {
  EXPECT_EQ(codec_bytes({.codec = Codec::int8}, 257), 257 + 2 * 4);
  EXPECT_EQ(codec_bytes({.codec = Codec::int4}, 33), 17 + 3 * 2);
  // 5 bits a value: 69% fewer bytes than bf16.
  EXPECT_DOUBLE_EQ(codec_ratio({.codec = Codec::int4}, 1 << 20), 5.0 / 32);
}

}  // namespace
}  // namespace orrery::live

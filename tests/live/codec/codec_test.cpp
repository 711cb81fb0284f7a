// Properties of every codec.
#include "live/codec/codec.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/sha256.hpp"
#include "tests/live/codec/all_rules.hpp"

namespace orrery::live {
namespace {

double norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum);
}

TEST(Codec, EverySizeRoundTripsAndTheCodeHasItsExactSize) {
  for (const CodecRule& rule : all_rules()) {
    const auto codec = make_codec(rule);
    for (const std::size_t count : odd_sizes()) {
      SCOPED_TRACE(name_of(rule) + ", " + std::to_string(count) + " values");
      const std::vector<float> values = gradient_like(count, Rng(count + 1));
      CodecState state;
      const auto code = encoded(*codec, values, state);
      std::vector<float> decoded(count, 99.0F);
      ASSERT_NO_THROW(codec->decode_values(code, decoded));
      std::vector<float> error(count);
      for (std::size_t i = 0; i < count; ++i) error[i] = decoded[i] - values[i];
      EXPECT_LE(norm(error), norm(values) * 1.0001) << "a code is never worse than none";
    }
  }
}

TEST(Codec, EqualInputsGiveEqualBytesAndEqualMemory) {
  for (const CodecRule& rule : all_rules()) {
    SCOPED_TRACE(name_of(rule));
    CodecState first, second;
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> values = gradient_like(1000, Rng(7 + step));
      EXPECT_EQ(encoded(*make_codec(rule), values, first),
                encoded(*make_codec(rule), values, second));
    }
    EXPECT_EQ(first, second);
  }
}

TEST(Codec, WhatWasDecodedAndWhatIsRememberedIsWhatWentIn) {
  constexpr std::size_t kCount = 777;
  for (const CodecRule& rule : all_rules()) {
    if (!rule.error_feedback || rule.codec == Codec::none) continue;
    SCOPED_TRACE(name_of(rule));
    const auto codec = make_codec(rule);
    CodecState state;
    std::vector<double> put_in(kCount, 0), came_out(kCount, 0), size(kCount, 0);
    for (int step = 0; step < 50; ++step) {
      const std::vector<float> values = gradient_like(kCount, Rng(100 + step));
      const auto code = encoded(*codec, values, state);
      std::vector<float> decoded(kCount);
      codec->decode_values(code, decoded);
      for (std::size_t i = 0; i < kCount; ++i) {
        put_in[i] += values[i];
        came_out[i] += decoded[i];
        size[i] += std::abs(values[i]) + std::abs(decoded[i]) + std::abs(state.residual[i]);
      }
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      // One rounding of the sum and one of the difference a step, each of half an ulp.
      EXPECT_NEAR(came_out[i] + state.residual[i], put_in[i], 1.3e-7 * size[i]) << i;
    }
  }
}

TEST(Codec, ErrorFeedbackKeepsTheMeanTrue) {
  // A repeated gradient: the mean of the decoded values converges to the gradient.
  constexpr std::size_t kCount = 512;
  constexpr int kSteps = 200;
  const std::vector<float> values = gradient_like(kCount, Rng(3));
  for (const CodecRule& rule : all_rules()) {
    if (!rule.error_feedback || rule.codec == Codec::power_sgd) continue;
    SCOPED_TRACE(name_of(rule));
    const auto codec = make_codec(rule);
    CodecState state;
    std::vector<float> mean(kCount, 0), decoded(kCount);
    for (int step = 0; step < kSteps; ++step) {
      codec->decode_values(encoded(*codec, values, state), decoded);
      for (std::size_t i = 0; i < kCount; ++i) mean[i] += decoded[i] / kSteps;
    }
    for (std::size_t i = 0; i < kCount; ++i) mean[i] -= values[i];
    EXPECT_LT(norm(mean), 0.15 * norm(values));
  }
}

TEST(Codec, WhatIsNotFiniteShowsAndIsNotRemembered) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const CodecRule& rule : all_rules()) {
      SCOPED_TRACE(name_of(rule) + " of " + std::to_string(bad));
      const auto codec = make_codec(rule);
      std::vector<float> values = gradient_like(300, Rng(5));
      values[100] = bad;
      CodecState state;
      std::vector<float> decoded(values.size());
      codec->decode_values(encoded(*codec, values, state), decoded);
      EXPECT_FALSE(std::isfinite(decoded[100])) << "an overflow must not be hidden";
      for (const float left : state.residual) EXPECT_TRUE(std::isfinite(left));
      // The next, healthy step is whole again.
      values[100] = 0.25F;
      codec->decode_values(encoded(*codec, values, state), decoded);
      for (const float value : decoded) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST(Codec, TheExtremesOfFloatsAreCoded) {
  std::vector<float> values = {std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::lowest(),
                               std::numeric_limits<float>::denorm_min(), 0.0F, -0.0F, 1.0F};
  values.resize(64, 1e-42F);
  for (const CodecRule& rule : all_rules()) {
    if (rule.codec == Codec::power_sgd || rule.codec == Codec::bf16) continue;  // may overflow
    SCOPED_TRACE(name_of(rule));
    CodecState state;
    const auto codec = make_codec(rule);
    std::vector<float> decoded(values.size());
    codec->decode_values(encoded(*codec, values, state), decoded);
    for (const float value : decoded) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Codec, CodesOfWrongSizeAreRefused) {
  for (const CodecRule& rule : all_rules()) {
    SCOPED_TRACE(name_of(rule));
    const auto codec = make_codec(rule);
    std::vector<float> decoded(100);
    for (const std::size_t size : {std::size_t{0}, codec->encoded_size(100) - 1,
                                   codec->encoded_size(100) + 1}) {
      const std::vector<std::byte> code(size);
      EXPECT_THROW(codec->decode_values(code, decoded), Error);
    }
  }
}

TEST(Codec, AnyBytesOfTheRightSizeAreDecodedOrRefused) {
  Rng rng(11);
  int refused = 0;
  for (const CodecRule& rule : all_rules()) {
    const auto codec = make_codec(rule);
    for (int attempt = 0; attempt < 200; ++attempt) {
      std::vector<float> decoded(rng.below(300));
      std::vector<std::byte> code(codec->encoded_size(decoded.size()));
      for (std::byte& each : code) each = static_cast<std::byte>(rng.next());
      try {
        codec->decode_values(code, decoded);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::bad_input);
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(Codec, ImpossibleParametersAreRefused) {
  EXPECT_THROW(make_codec({.codec = Codec::int4, .parameter = 7}), Error);
  EXPECT_THROW(make_codec({.codec = Codec::int8, .parameter = 2e5}), Error);
  EXPECT_THROW(make_codec({.codec = Codec::top_k, .parameter = 1.5}), Error);
  EXPECT_THROW(make_codec({.codec = Codec::top_k, .parameter = std::nan("")}), Error);
  EXPECT_THROW(make_codec({.codec = Codec::power_sgd, .parameter = 2.5}), Error);
  EXPECT_THROW(make_codec({.codec = Codec::bf16, .parameter = 1}), Error);
}

}  // namespace
}  // namespace orrery::live
